import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import io.lettuce.core.RedisCommandExecutionException;
import org.springframework.dao.DataAccessException;
import org.springframework.data.redis.core.StringRedisTemplate;

/** Reads orders from standard input, a line each, and prints what the printed calls return. */
public final class Driver {
    private static String text(Object value) {
        return value == null ? "-" : value.toString();
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        StringRedisTemplate client = new StringRedisTemplate("127.0.0.1", port);
        Deduct deduct = new Deduct(client, "shop-api");
        Refund refund = new Refund(client, "shop-api");
        MultiDeduct multi = new MultiDeduct(client, "shop-api");
        Hold hold = new Hold(client, "shop-api");
        Settle settle = new Settle(client, "shop-api");
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
                    case "deduct" -> {
                        var outcome = deduct.deduct(words[1], words[2], Long.parseLong(words[3]), words[4], sentBefore);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()));
                    }
                    default -> {
                        var outcome = refund.refund(words[1], words[2], words[3], words[4], sentBefore);
                        out.println(outcome.status() + " " + text(outcome.stock()) + " " + text(outcome.bought()) + " " + text(outcome.quantity()));
                    }
                }
            } catch (DataAccessException e) {
                boolean isReply = e.getCause() instanceof RedisCommandExecutionException;
                out.println(isReply ? "refused: " + e.getCause().getMessage() : "unknown");
            }
        }
    }
}
