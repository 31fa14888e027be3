package redis.clients.jedis;

/** As in Jedis, as far as the printed calls use it. */
public final class DefaultJedisClientConfig {
    public static final class Builder {
        public Builder connectionTimeoutMillis(int milliseconds) {
            return this;
        }

        public Builder socketTimeoutMillis(int milliseconds) {
            return this;
        }

        public DefaultJedisClientConfig build() {
            return new DefaultJedisClientConfig();
        }
    }

    public static Builder builder() {
        return new Builder();
    }
}
