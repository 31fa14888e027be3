package org.springframework.data.redis;

import org.springframework.dao.DataAccessException;

/** As in Spring. */
public class RedisSystemException extends DataAccessException {
    public RedisSystemException(String message, Throwable cause) {
        super(message, cause);
    }
}
