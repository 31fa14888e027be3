package org.springframework.data.redis;

import org.springframework.dao.DataAccessException;

/** As in Spring. */
public class RedisConnectionFailureException extends DataAccessException {
    public RedisConnectionFailureException(String message, Throwable cause) {
        super(message, cause);
    }
}
