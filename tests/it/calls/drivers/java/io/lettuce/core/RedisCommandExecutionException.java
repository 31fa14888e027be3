package io.lettuce.core;

/** As in Lettuce: what the server replied. */
public class RedisCommandExecutionException extends RuntimeException {
    public RedisCommandExecutionException(String message) {
        super(message);
    }
}
