package standin;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** One connection that speaks the server's protocol, for what stands in for client libraries. */
public final class Resp {
    /** What the server replied. */
    public static final class ServerError extends RuntimeException {
        ServerError(String message) {
            super(message);
        }
    }

    private final InetSocketAddress address;
    private Socket socket;
    private InputStream input;

    public Resp(String host, int port) {
        address = new InetSocketAddress(host, port);
    }

    public Object eval(String command, String script, List<String> keys, List<String> arguments) throws IOException {
        List<String> words = new ArrayList<>(List.of(command, script, String.valueOf(keys.size())));
        words.addAll(keys);
        words.addAll(arguments);
        return command(words);
    }

    public void close() {
        try {
            if (socket != null) {
                socket.close();
            }
        } catch (IOException e) {
            // It is gone either way.
        }
        socket = null;
    }

    public Object command(List<String> words) throws IOException {
        try {
            return send(words);
        } catch (IOException e) {
            if (socket != null) {
                socket.close();
                socket = null;
            }
            throw e;
        }
    }

    private Object send(List<String> words) throws IOException {
        if (socket == null) {
            socket = new Socket();
            socket.connect(address, 1000);
            socket.setSoTimeout(1000);
            input = new BufferedInputStream(socket.getInputStream());
        }
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        request.writeBytes(("*" + words.size() + "\r\n").getBytes(StandardCharsets.UTF_8));
        for (String word : words) {
            byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
            request.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
            request.writeBytes(bytes);
            request.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
        }
        socket.getOutputStream().write(request.toByteArray());
        return read();
    }

    private Object read() throws IOException {
        String line = line();
        String rest = line.substring(1);
        switch (line.charAt(0)) {
            case '-':
                throw new ServerError(rest);
            case ':':
                return Long.valueOf(rest);
            case '$':
                int length = Integer.parseInt(rest);
                return length < 0 ? null : new String(bytes(length), StandardCharsets.UTF_8);
            case '*':
                List<Object> values = new ArrayList<>();
                for (int left = Integer.parseInt(rest); left > 0; left--) {
                    values.add(read());
                }
                return values;
            default:
                return rest;
        }
    }

    private byte[] bytes(int length) throws IOException {
        byte[] bytes = input.readNBytes(length);
        input.skipNBytes(2);
        return bytes;
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = input.read(); next != '\n'; next = input.read()) {
            if (next < 0) {
                throw new IOException("the connection is closed");
            }
            line.write(next);
        }
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }
}
