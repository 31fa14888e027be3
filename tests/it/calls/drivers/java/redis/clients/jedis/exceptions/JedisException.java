package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisException extends RuntimeException {
    public JedisException(String message) {
        super(message);
    }

    public JedisException(String message, Throwable cause) {
        super(message, cause);
    }
}
