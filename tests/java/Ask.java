import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.message.ShareFetchResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;

/**
 * Sends the requests of a file, one a line: {@code NAME API VERSION BODY}, the body as JSON with Kafka's names,
 * and prints {@code NAME BODY} of each answer. Values that differ from run to run, and the wording of messages, are printed
 * as "*".
 *
 * <p>With a user and a password, the requests are that user's, who authenticates by PLAIN.
 *
 * <p>With "-" as the file, the requests come on standard input, and each is answered before the next one is read.
 *
 * <p>A name that ends in "!" repeats its request until the answer tells of no error, one that ends in "?" until it tells of no
 * error that passes, one that ends in "+" until it names assigned partitions, one that ends in "%" until it tells why a topic
 * could not be created. Requests with the same {@code @LABEL} in their names use one connection, which a line
 * {@code disconnect @LABEL} closes. {@code {NAME}} in a body stands for the HMAC of a token, or else the member id, or else the producer id, or else the id of the first
 * topic, in the answer to the request of that name. {@code @ID/EPOCH/SEQUENCE/COUNT/TRANSACTIONAL} stands for a batch of this
 * producer. The answer to a request whose name ends in "~" is printed with its lists
 * in the order they came in; the others are sorted.
 */
public class Ask {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Set<String> CHANGING =
            Set.of("topicId", "clusterId", "host", "port", "memberId", "leader", "producerId", "errorMessage", "tokenId", "hmac");
    /** The same of delegation tokens, unless it is 0. */
    private static final Set<String> TOKEN_TIMES =
            Set.of("issueTimestamp", "issueTimestampMs", "expiryTimestamp", "expiryTimestampMs", "maxTimestamp", "maxTimestampMs");
    /** The same in a conversation. */
    private static final Set<String> TIMES = Set.of("transactionStartTimeMs", "lastTimestamp");
    /** A coordinator loads or moves, or a transaction ends. */
    private static final String PASSES = ".*\"errorCode\":(14|15|16|51)[,}].*";
    private static final String NO_ID = Uuid.ZERO_UUID.toString();
    private static final String ASSIGNED = ".*\"partitions\":\\[\\d.*";
    private static final String NOT_CREATED = "; Creation failed: ";
    private static final Pattern BATCH = Pattern.compile("@(-?\\d+)/(-?\\d+)/(-?\\d+)/(\\d+)/(true|false)");

    /** Whether the requests come on standard input. */
    private static boolean converses = false;

    private final String host;
    private final int port;
    /** The SASL token of the user who asks; null for nobody in particular. */
    private final byte[] token;
    /** The HMAC, or else the member id, or else the producer id, or else a topic id, in the answer to each request, by the request's name. */
    private final Map<String, String> ids = new HashMap<>();
    /** Connections that stay open, by label. */
    private final Map<String, Socket> kept = new HashMap<>();

    Ask(String address, byte[] token) {
        this.token = token;
        int colon = address.lastIndexOf(':');
        host = address.substring(0, colon);
        port = Integer.parseInt(address.substring(colon + 1));
    }

    public static void main(String[] arguments) throws Exception {
        byte[] token = arguments.length < 4
                ? null
                : ("\0" + arguments[2] + "\0" + arguments[3]).getBytes(StandardCharsets.UTF_8);
        Ask ask = new Ask(arguments[0], token);
        if (arguments[1].equals("-")) {
            converses = true;
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                ask.answer(line);
            }
            return;
        }
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            if (!line.isBlank() && !line.startsWith("#")) {
                ask.answer(line);
            }
        }
    }

    private void answer(String line) throws Exception {
        String[] words = line.split(" ", 4);
        if (words[0].equals("disconnect")) {
            kept.remove(words[1]).close();
            return;
        }
        ApiKeys api = ApiKeys.valueOf(words[1]);
        short version = Short.parseShort(words[2]);
        String body = named(words[3]);
        String answer = call(words[0], api, version, body);
        while (words[0].endsWith("!") && answer.matches(".*\"errorCode\":-?[1-9].*")
                || words[0].endsWith("?") && answer.matches(PASSES)
                || words[0].endsWith("+") && !answer.matches(ASSIGNED)
                || words[0].endsWith("%") && !answer.contains(NOT_CREATED)) {
            Thread.sleep(words[0].endsWith("?") ? 5 : 50);
            answer = call(words[0], api, version, body);
        }
        System.out.println(words[0] + " " + answer);
    }

    /** The body with the ids that it refers to. */
    private String named(String body) {
        for (Map.Entry<String, String> id : ids.entrySet()) {
            body = body.replace("{" + id.getKey() + "}", id.getValue());
        }
        return BATCH.matcher(body).replaceAll(Ask::batch);
    }

    /** The text with the names of topics in place of their ids. */
    private String unnamed(String text) {
        for (Map.Entry<String, String> id : ids.entrySet()) {
            if (id.getValue().length() == NO_ID.length() && !id.getValue().equals(NO_ID)) {
                text = text.replace(id.getValue(), "{" + id.getKey() + "}");
            }
        }
        return text;
    }

    /** Puts the offsets of the batches in place of the bytes, which JSON does not have. */
    private static void nameBatches(ShareFetchResponseData response, JsonNode json) {
        for (var topic : response.responses()) {
            JsonNode partitions = find(json.path("responses"), "topicId", topic.topicId().toString()).path("partitions");
            for (var partition : topic.partitions()) {
                if (partition.records() instanceof Records records && records.sizeInBytes() > 0) {
                    StringJoiner batches = new StringJoiner(" ");
                    records.batches().forEach(batch -> batches.add(batch.baseOffset() + "-" + batch.lastOffset()));
                    String index = String.valueOf(partition.partitionIndex());
                    ((ObjectNode) find(partitions, "partitionIndex", index)).put("records", batches.toString());
                }
            }
        }
    }

    private static JsonNode find(JsonNode elements, String field, String value) {
        for (JsonNode element : elements) {
            if (element.path(field).asText().equals(value)) {
                return element;
            }
        }
        throw new IllegalStateException(value);
    }

    /** The bytes of a batch, as JSON has them. */
    private static String batch(MatchResult named) {
        SimpleRecord[] records = IntStream.range(0, Integer.parseInt(named.group(4)))
                .mapToObj(number -> new SimpleRecord(1_700_000_000_000L, null, new byte[] {(byte) number}))
                .toArray(SimpleRecord[]::new);
        long id = Long.parseLong(named.group(1));
        short epoch = Short.parseShort(named.group(2));
        int sequence = Integer.parseInt(named.group(3));
        MemoryRecords batch = Boolean.parseBoolean(named.group(5))
                ? MemoryRecords.withTransactionalRecords(Compression.NONE, id, epoch, sequence, records)
                : MemoryRecords.withIdempotentRecords(Compression.NONE, id, epoch, sequence, records);
        byte[] bytes = new byte[batch.sizeInBytes()];
        batch.buffer().duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    private String call(String name, ApiKeys api, short version, String body) throws Exception {
        ApiMessage request = api.messageType.newRequest();
        Class<?> converter = Class.forName(request.getClass().getName() + "JsonConverter");
        Object data = converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, JSON.readTree(body), version);
        RequestHeader header = new RequestHeader(api, version, "ask", 1);
        ByteBuffer bytes =
                RequestUtils.serialize(header.data(), header.headerVersion(), (ApiMessage) data, version);
        int at = name.indexOf('@');
        // A connection each: what one request does to its connection is no matter to the next.
        try (Socket own = at < 0 ? opened() : null) {
            Socket socket = at < 0 ? own : kept(name.substring(at));
            ByteBuffer answer = exchange(socket, bytes);
            answer.position(api.responseHeaderVersion(version) == 0 ? 4 : 5);
            ApiMessage response = api.messageType.newResponse();
            response.read(new ByteBufferAccessor(answer), version);
            Class<?> writer = Class.forName(response.getClass().getName() + "JsonConverter");
            JsonNode json = (JsonNode) writer.getMethod("write", response.getClass(), short.class)
                    .invoke(null, response, version);
            String topic = json.path("topics").path(0).path("topicId").asText();
            String hmac = json.path("hmac").asText();
            ids.put(name, !hmac.isEmpty() ? hmac : json.path("memberId").asText(json.path("producerId").asText(topic)));
            if (response instanceof ShareFetchResponseData fetched) {
                nameBatches(fetched, json);
            }
            return unnamed(JSON.writeValueAsString(steady(json, !name.endsWith("~"))));
        } catch (EOFException closed) {
            return "\"closed\"";
        } catch (IOException broken) {
            return "\"closed\"";
        }
    }

    private Socket opened() throws IOException {
        Socket socket = new Socket(host, port);
        socket.setSoTimeout(30_000);
        if (token != null) {
            exchange(socket, handshake());
            exchange(socket, ByteBuffer.wrap(token));
        }
        return socket;
    }

    private Socket kept(String label) throws IOException {
        if (!kept.containsKey(label)) {
            kept.put(label, opened());
        }
        return kept.get(label);
    }

    /** Sends a frame and returns the next one. */
    private static ByteBuffer exchange(Socket socket, ByteBuffer bytes) throws IOException {
        socket.getOutputStream().write(ByteBuffer.allocate(4).putInt(bytes.remaining()).array());
        socket.getOutputStream().write(bytes.array(), bytes.position(), bytes.remaining());
        DataInputStream input = new DataInputStream(socket.getInputStream());
        byte[] frame = new byte[input.readInt()];
        input.readFully(frame);
        return ByteBuffer.wrap(frame);
    }

    /** Version 0: bare tokens follow. */
    private static ByteBuffer handshake() {
        RequestHeader header = new RequestHeader(ApiKeys.SASL_HANDSHAKE, (short) 0, "ask", 0);
        ApiMessage request = new SaslHandshakeRequestData().setMechanism("PLAIN");
        return RequestUtils.serialize(header.data(), header.headerVersion(), request, (short) 0);
    }

    /** The same without what changes from run to run, fields in alphabetical order and elements too if they are {@code sorted}. */
    private static JsonNode steady(JsonNode node, boolean sorted) {
        if (node instanceof ArrayNode array) {
            List<JsonNode> elements = new ArrayList<>();
            array.forEach(one -> elements.add(steady(one, sorted)));
            // Levada's own configuration keys.
            elements.removeIf(one -> one.path("name").asText().startsWith("levada."));
            if (sorted) {
                elements.sort(Comparator.comparing(JsonNode::toString));
            }
            return JSON.createArrayNode().addAll(elements);
        }
        if (!(node instanceof ObjectNode)) {
            return node;
        }
        TreeMap<String, JsonNode> fields = new TreeMap<>();
        node.properties().forEach(field -> fields.put(field.getKey(), field.getValue()));
        fields.remove("throttleTimeMs");
        ObjectNode steady = JSON.createObjectNode();
        fields.forEach((name, value) ->
                steady.set(name, changes(name, value) ? JSON.valueToTree("*") : steady(value, sorted)));
        return steady;
    }

    /** Whether a value is a made-up one; those that stand for nothing are not. */
    private static boolean changes(String name, JsonNode value) {
        String text = value.asText();
        boolean nothing = value.isNull() || text.isEmpty() || text.equals("-1") || text.equals(NO_ID);
        boolean time = TOKEN_TIMES.contains(name) && !text.equals("0");
        return (CHANGING.contains(name) || time || converses && TIMES.contains(name)) && !nothing;
    }
}
