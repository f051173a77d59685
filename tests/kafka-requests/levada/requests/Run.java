package levada.requests;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.opentest4j.TestAbortedException;

/**
 * Runs classes of tests, or `CLASS#METHOD`, and writes a line for each test to a file: the outcome,
 * the name, the seconds, and the first line of the error, with tabs between them.
 */
public final class Run implements TestExecutionListener {
    private static final int ERROR_LIMIT = 6000;

    private final PrintStream out;
    private final Map<UniqueId, Long> started = new HashMap<>();

    private Run(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request()
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.default", "180 s");
        for (int i = 1; i < arguments.length; i++) {
            request.selectors(arguments[i].contains("#") ? selectMethod(arguments[i]) : selectClass(arguments[i]));
        }
        LauncherDiscoveryRequest discovery = request.build();
        try (PrintStream out = new PrintStream(Path.of(arguments[0]).toFile())) {
            LauncherFactory.create().execute(discovery, new Run(out));
        }
        // Threads of a failed test do not keep the JVM.
        System.exit(0);
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        started.put(test.getUniqueIdObject(), System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        write("disabled", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable error = result.getThrowable().orElse(null);
        TestAbortedException aborted = aborted(error);
        if (aborted != null) {
            write("aborted", test, line(aborted.getMessage()));
        } else if (result.getStatus() != TestExecutionResult.Status.SUCCESSFUL) {
            write("failed", test, error == null ? "" : describe(error));
        } else if (test.isTest()) {
            write("passed", test, "");
        }
    }

    /** The reason of a test that cannot run, also if the test has only passed it on; or null. */
    private static TestAbortedException aborted(Throwable error) {
        if (error == null || error instanceof TestAbortedException) {
            return (TestAbortedException) error;
        }
        return aborted(error.getCause());
    }

    private void write(String outcome, TestIdentifier test, String error) {
        long nanos = System.nanoTime() - started.getOrDefault(test.getUniqueIdObject(), System.nanoTime());
        out.printf("%s\t%s\t%.1f\t%s%n", outcome, name(test), nanos / 1e9, error);
        out.flush();
    }

    /** Class, method, and the number of a repetition. */
    private static String name(TestIdentifier test) {
        String name = test.getSource().map(source -> {
            if (source instanceof MethodSource method) {
                return method.getClassName() + "#" + method.getMethodName();
            }
            return source instanceof ClassSource type ? type.getClassName() : source.toString();
        }).orElse(test.getUniqueId());
        UniqueId.Segment last = test.getUniqueIdObject().getLastSegment();
        return last.getType().equals("test-template-invocation") ? name + last.getValue() : name;
    }

    private static String describe(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().endsWith("Test") || frame.getClassName().contains("Test$")) {
                text.append(" | at ").append(frame.getFileName()).append(':').append(frame.getLineNumber());
                break;
            }
        }
        Throwable cause = error.getCause();
        for (int depth = 0; cause != null && depth < 5; depth++) {
            text.append(" | caused by ").append(cause);
            cause = cause.getCause();
        }
        return line(text.toString());
    }

    private static String line(String text) {
        String line = text.replaceAll("\\s*[\\r\\n]+\\s*", " / ").replace('\t', ' ');
        return line.length() > ERROR_LIMIT ? line.substring(0, ERROR_LIMIT) : line;
    }
}
