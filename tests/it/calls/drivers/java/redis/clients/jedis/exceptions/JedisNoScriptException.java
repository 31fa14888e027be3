package redis.clients.jedis.exceptions;

/** As in Jedis. */
public class JedisNoScriptException extends JedisDataException {
    public JedisNoScriptException(String message) {
        super(message);
    }
}
