package org.springframework.dao;

/** As in Spring. */
public class QueryTimeoutException extends DataAccessException {
    public QueryTimeoutException(String message, Throwable cause) {
        super(message, cause);
    }
}
