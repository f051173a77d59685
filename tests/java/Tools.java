import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, since a JVM takes longer to start than a tool to run.
 *
 * <p>Usage: Tools BOOTSTRAP SCRATCH [verbatim]. Each line of standard input is a command: the simple name of a tool's class, or of
 * an action of {@link Actors}, and its arguments; single quotes hold words together, and {@code SCRATCH} stands for the
 * directory of the test. What it prints, on either stream, comes out on standard output, without what changes from run
 * to run unless it is to be verbatim, and after it a line {@code === CODE} with the exit code.
 */
public final class Tools {
    private static final List<String> PACKAGES =
        List.of("org.apache.kafka.tools.", "org.apache.kafka.tools.consumer.", "org.apache.kafka.tools.consumer.group.",
            "org.apache.kafka.tools.reassign.", "org.apache.kafka.tools.streams.", "kafka.admin.");

    /** What differs between two runs, and what stands for it. */
    private static final String[][] VOLATILE = {
        {"(?<=127\\.0\\.0\\.1[: ])\\d{5}", "PORT"},
        {"(?<=TopicId: )[-\\w]{22}", "ID"},
        {"(?<=Cluster(Id|\\sID): {0,20})[-\\w]{22}", "ID"},
        {"(?<=\"(topicId|directoryId)\":\"?\\s?\"?)[-\\w]{22}", "ID"},
        {"(?<=\\s)(?!LatestCoordinatorEpoch|[A-Z_]+\\s)[-\\w]{22}(?=\\s)", "ID"},
        {"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"},
        {"\\b1[789]\\d{11}\\b", "TIME"},
        {"\\d{4}[-/]\\d\\d[-/]\\d\\d[ T]\\d\\d:\\d\\d:\\d\\d[.:,]\\d{3}(Z|[+-]\\d\\d:?\\d\\d)?", "DATE"},
        {"(?<=HighWatermark: {0,20}|Epoch: )\\d+(?=\\n)", "NUMBER"},
        {"(?m)^(\\d+ *\\t\\S+ *\\t)\\d+( *\\t0 *\\tTIME *\\tTIME)", "$1NUMBER$2"},
        // Kafka does not have these.
        {"(?m)^ +levada\\..*\\n", ""},
        // A set of Kafka's, in any order.
        {"\\[1,0\\]", "[0,1]"},
        // The order of member ids.
        {"(?m)^(.*\\bsecond-StreamThread.*\\n)(.*\\bfirst-StreamThread.*\\n)", "$2$1"},
        {"(?<=records sent), .*", ""},
        {"(?<=DATE, DATE), [\\d.]+, [\\d.]+, (\\d+), .*", ", $1"},
        {"(?<=\"avg_throughput\":)[\\d.E]+", "RATE"},
        {"(?m)^(\\d+ +\\t\\S+ *\\t\\d+ *\\t\\d+ *\\t\\w+ *\\t\\d+ *\\t\\w+ *\\t)\\d+ *(?=\\t|$)", "$1MS"},
        {"(?m)^\\t(at |\\.\\.\\. \\d+ more).*\\n", ""},
        {"[ \\t]+(?=\\n)", ""},
    };

    private static final Pattern WORD = Pattern.compile("'([^']*)'|(\\S+)");

    /** Thrown where a tool wants the JVM to end. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super(null, null, false, false);
        }
    }

    private final PrintStream answers = System.out;
    private final ByteArrayOutputStream said = new ByteArrayOutputStream();
    private final String bootstrap;
    private final String scratch;
    private final boolean verbatim;
    private final Actors actors;
    /** What a tool wants done when the JVM ends, which here is when the tool does. */
    private final List<Runnable> hooks = new ArrayList<>();
    private Integer code;
    private String last;

    private Tools(String bootstrap, String scratch, boolean verbatim) {
        this.bootstrap = bootstrap;
        this.scratch = scratch;
        this.verbatim = verbatim;
        this.actors = new Actors(bootstrap);
    }

    public static void main(String[] arguments) throws Exception {
        Tools tools = new Tools(arguments[0], arguments[1], arguments.length > 2);
        PrintStream both = new PrintStream(tools.said, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        InvocationHandler end = (procedure, method, codeAndMessage) -> tools.exit((Integer) codeAndMessage[0]);
        replace("setExitProcedure", end);
        replace("setHaltProcedure", end);
        replace("setShutdownHookAdder", (adder, method, nameAndHook) -> {
            tools.hooks.add((Runnable) nameAndHook[1]);
            return null;
        });
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            tools.run(line);
        }
        Runtime.getRuntime().halt(0);
    }

    /** Replaces what Kafka's tools do at their end. The next Kafka has the class in another package. */
    private static void replace(String setter, InvocationHandler procedure) throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?>[] types = method.getParameterTypes();
                method.invoke(null, Proxy.newProxyInstance(Tools.class.getClassLoader(), types, procedure));
            }
        }
    }

    /** A tool may catch what ends it and go on: only its first word counts, and what it said until then. */
    private Object exit(int wanted) {
        if (code == null) {
            code = wanted;
            last = said.toString(StandardCharsets.UTF_8);
        }
        throw new Ended();
    }

    private void run(String line) {
        said.reset();
        code = null;
        last = null;
        List<String> words = new ArrayList<>();
        for (Matcher word = WORD.matcher(line); word.find();) {
            String text = word.group(1) != null ? word.group(1) : word.group(2);
            words.add(text.replace("SCRATCH", scratch));
        }
        String name = words.remove(0);
        try {
            if (Character.isLowerCase(name.charAt(0))) {
                actors.act(name, words);
            } else {
                tool(name, words);
            }
        } catch (Ended ended) {
            // The code is known.
        } catch (Throwable failed) {
            if (code == null) {
                System.out.println("Exception in thread \"main\" " + failed);
                code = 1;
            }
        }
        hooks.forEach(Runnable::run);
        hooks.clear();
        String text = last != null ? last : said.toString(StandardCharsets.UTF_8);
        if (!text.isEmpty() && !text.endsWith("\n")) {
            text += "\n";
        }
        text = text.replace(scratch, "SCRATCH");
        // Decoded records are megabytes that a test compares itself.
        if (!verbatim && words.stream().noneMatch(word -> word.endsWith("-decoder"))) {
            for (String[] rule : VOLATILE) {
                text = text.replaceAll(rule[0], rule[1]);
            }
        }
        answers.print(text);
        answers.println("=== " + (code == null ? 0 : code));
        answers.flush();
    }

    private void tool(String name, List<String> words) throws Throwable {
        String flag = name.equals("TransactionalMessageCopier") ? "--broker-list" : "--bootstrap-server";
        if (!name.equals("DumpLogSegments")) {
            // This one wants its verb first.
            words.addAll(name.equals("ClusterTool") ? words.size() : 0, List.of(flag, bootstrap));
        }
        for (String place : PACKAGES) {
            Class<?> found;
            try {
                found = Class.forName(place + name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
            try {
                found.getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
            return;
        }
        throw new ClassNotFoundException(name);
    }
}
