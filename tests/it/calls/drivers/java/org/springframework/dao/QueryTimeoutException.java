package org.springframework.dao;

/** As in Spring. */
public class QueryTimeoutException extends RuntimeException {
    public QueryTimeoutException(String message) {
        super(message);
    }
}
