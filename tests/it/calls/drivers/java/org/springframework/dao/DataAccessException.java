package org.springframework.dao;

/** As in Spring. */
public abstract class DataAccessException extends RuntimeException {
    protected DataAccessException(String message, Throwable cause) {
        super(message, cause);
    }
}
