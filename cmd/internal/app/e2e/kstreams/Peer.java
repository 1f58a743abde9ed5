import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * What a team would write on Kafka Streams for the same job: five budgets and patterns of a
 * flow, of weir's events, in a persistent store with a changelog, at least once.
 *
 * <p>Peer BROKERS INPUT OUTPUT STATE-FOLDER EVENTS ends when it has processed so many events,
 * committed and closed, and prints how many warnings it gave.
 */
public final class Peer {
    private static final JsonFactory JSON = new JsonFactory();
    private static final AtomicLong processed = new AtomicLong();
    private static final AtomicLong warned = new AtomicLong();

    public static void main(String[] args) throws Exception {
        long events = Long.parseLong(args[4]);
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        Topology t = new Topology();
        t.addSource("events", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), args[1]);
        t.addProcessor("guard", Guard::new, "events");
        t.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("flows"), Serdes.String(), Serdes.ByteArray()).withCachingEnabled(), "guard");
        t.addSink("verdicts", args[2], Serdes.String().serializer(), Serdes.String().serializer(), "guard");

        KafkaStreams streams = new KafkaStreams(t, p);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            failed.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (processed.get() < events) {
            if (failed.getCount() == 0) System.exit(1);
            Thread.sleep(20);
        }
        streams.close(); // commits, and flushes the store and the producers
        System.out.printf("{\"processed\":%d,\"warned\":%d}%n", processed.get(), warned.get());
    }

    /** Guard folds one call at a time. */
    private static final class Guard implements Processor<String, byte[], String, String> {
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, byte[]> flows;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            flows = context.getStateStore("flows");
        }

        @Override
        public void process(Record<String, byte[]> r) {
            try {
                Call call = Call.parse(r.value());
                if (call.to != null && call.flow != null) fold(call, r.timestamp());
            } catch (IOException e) {
                // no event: a dead letter elsewhere
            }
            processed.incrementAndGet();
        }

        private void fold(Call call, long at) throws IOException {
            byte[] was = flows.get(call.flow);
            Flow f = was == null ? new Flow() : Flow.read(was);
            f.count(call, at);
            warn(f, call, 1, "depth", f.stack.size(), 5, at);
            warn(f, call, 2, "rate", f.inMinute(at), 20, at);
            warn(f, call, 4, "unique", f.seen.size(), 10, at);
            warn(f, call, 8, "ping_pong", f.pingPong, 12, at);
            warn(f, call, 16, "total", f.total, 100, at);
            flows.put(call.flow, f.bytes());
        }

        private void warn(Flow f, Call call, int bit, String rule, int observed, int limit, long at) {
            if (observed <= limit || (f.said & bit) != 0) return;
            f.said |= bit;
            warned.incrementAndGet();
            context.forward(new Record<>(call.flow, "{\"flow\":\"" + call.flow + "\",\"rule\":\"" + rule + "\",\"observed\":" + observed + ",\"limit\":" + limit + "}", at));
        }
    }

    /** Call is what the rules need of an event; to is null when it is none between agents. */
    private static final class Call {
        String flow, from = "", to;

        static Call parse(byte[] json) throws IOException {
            Call c = new Call();
            String kind = "", to = "";
            try (JsonParser p = JSON.createParser(json)) {
                p.nextToken();
                while (p.nextToken() == JsonToken.FIELD_NAME) {
                    String name = p.currentName();
                    p.nextToken();
                    switch (name) {
                        case "kind" -> kind = p.getText();
                        case "correlation_id" -> c.flow = p.getText();
                        case "from" -> c.from = party(p);
                        case "to" -> to = party(p);
                        default -> p.skipChildren();
                    }
                }
            }
            if (kind.equals("agent.call") && !to.isEmpty()) c.to = to;
            return c;
        }

        /** party is the session, or else the agent. */
        private static String party(JsonParser p) throws IOException {
            String agent = "", session = "";
            if (p.currentToken() != JsonToken.START_OBJECT) return "";
            while (p.nextToken() == JsonToken.FIELD_NAME) {
                String name = p.currentName();
                p.nextToken();
                if (name.equals("agent")) agent = p.getText();
                else if (name.equals("session")) session = p.getText();
                else p.skipChildren();
            }
            return session.isEmpty() ? agent : session;
        }
    }

    /** Flow is the state of one correlation id. */
    private static final class Flow {
        int total, pingPong, said;
        String lastFrom = "", lastTo = "";
        final List<String> stack = new ArrayList<>(), seen = new ArrayList<>();
        final List<Long> times = new ArrayList<>(); // of the last calls

        void count(Call c, long at) {
            total++;
            int i = stack.indexOf(c.to);
            if (i >= 0) stack.subList(i + 1, stack.size()).clear();
            else if (stack.size() < 32) stack.add(c.to);
            if (seen.size() < 16 && !seen.contains(c.to)) seen.add(c.to);
            times.add(at);
            if (times.size() > 21) times.remove(0);
            pingPong = c.from.equals(lastTo) && c.to.equals(lastFrom) ? pingPong + 1 : 1;
            lastFrom = c.from;
            lastTo = c.to;
        }

        int inMinute(long at) {
            int n = 0;
            for (long t : times) if (at - t < 60_000) n++;
            return n;
        }

        static Flow read(byte[] b) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(b));
            Flow f = new Flow();
            f.total = in.readInt();
            f.pingPong = in.readInt();
            f.said = in.readInt();
            f.lastFrom = in.readUTF();
            f.lastTo = in.readUTF();
            for (List<String> list : List.of(f.stack, f.seen)) for (int n = in.readByte(); n > 0; n--) list.add(in.readUTF());
            for (int n = in.readByte(); n > 0; n--) f.times.add(in.readLong());
            return f;
        }

        byte[] bytes() throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(total);
            out.writeInt(pingPong);
            out.writeInt(said);
            out.writeUTF(lastFrom);
            out.writeUTF(lastTo);
            for (List<String> list : List.of(stack, seen)) {
                out.writeByte(list.size());
                for (String s : list) out.writeUTF(s);
            }
            out.writeByte(times.size());
            for (long t : times) out.writeLong(t);
            return bytes.toByteArray();
        }
    }
}
