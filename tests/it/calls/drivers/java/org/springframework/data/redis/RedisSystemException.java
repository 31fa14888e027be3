package org.springframework.data.redis;

/** As in Spring Data Redis. */
public class RedisSystemException extends RuntimeException {
    public RedisSystemException(String message) {
        super(message);
    }
}
