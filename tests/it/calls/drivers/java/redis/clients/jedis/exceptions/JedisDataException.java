package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisDataException extends JedisException {
    public JedisDataException(String message) {
        super(message);
    }
}
