import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;

/** Reads orders from standard input, a line each, and prints what the printed calls return. */
public final class Driver {
    private static String text(Object value) {
        return value == null ? "-" : value.toString();
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        JedisPooled client = Deduct.connect("127.0.0.1", port);
        Deduct deduct = new Deduct(client, "shop-api");
        Refund refund = new Refund(client, "shop-api");
        MultiDeduct multi = new MultiDeduct(client, "shop-api");
        Hold hold = new Hold(client, "shop-api");
        Settle settle = new Settle(client, "shop-api");
        Map<String, ShardedActivity> sharded = new LinkedHashMap<>();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            boolean sentBefore = words[words.length - 1].equals("1");
            try {
                switch (words[0]) {
                    case "multi" -> {
                        Map<String, Long> quantities = new LinkedHashMap<>();
                        for (String item : words[2].split(",")) {
                            quantities.put(item.split("=")[0], Long.valueOf(item.split("=")[1]));
                        }
                        var outcome = multi.multiDeduct(words[1], quantities, words[3], sentBefore);
                        StringBuilder shown = new StringBuilder(outcome.status().name());
                        quantities.keySet().forEach(activity -> {
                            var item = outcome.items().get(activity);
                            shown.append(" " + activity + ":" + item.status() + ":" + text(item.stock()) + ":" + text(item.bought()));
                        });
                        out.println(shown);
                    }
                    case "hold" -> {
                        Duration duration = Duration.ofMillis(Long.parseLong(words[4]));
                        var outcome = hold.hold(words[1], words[2], Long.parseLong(words[3]), duration, words[5], sentBefore);
                        Long deadline = outcome.deadline() == null ? null : outcome.deadline().toEpochMilli();
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()) + " " + text(deadline));
                    }
                    case "confirm", "release" -> {
                        var outcome = words[0].equals("confirm") ? settle.confirm(words[1], words[2]) : settle.release(words[1], words[2]);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()) + " "
                            + text(outcome.quantity()) + " " + text(outcome.user()));
                    }
                    case "sharded" -> {
                        var activity = sharded.computeIfAbsent(words[1],
                            id -> new ShardedActivity(key -> new Jedis(new HostAndPort("127.0.0.1", port)), "shop-api", id));
                        var outcome = activity.deduct(words[2], Long.parseLong(words[3]), words[4], sentBefore);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()));
                    }
                    case "deduct" -> {
                        var outcome = deduct.deduct(words[1], words[2], Long.parseLong(words[3]), words[4], sentBefore);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()));
                    }
                    default -> {
                        var outcome = refund.refund(words[1], words[2], words[3], words[4], sentBefore);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()) + " " + text(outcome.quantity()));
                    }
                }
            } catch (JedisConnectionException e) {
                out.println("unknown");
            } catch (JedisDataException e) {
                out.println("refused: " + e.getMessage());
            }
        }
    }
}
