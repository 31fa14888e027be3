package org.springframework.data.redis;

/** As in Spring Data Redis. */
public class RedisConnectionFailureException extends RuntimeException {
    public RedisConnectionFailureException(String message) {
        super(message);
    }
}
