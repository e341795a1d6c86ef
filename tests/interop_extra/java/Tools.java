import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM, each as its `main` would run alone.
 *
 * A line on standard input is a class and its words, separated by tabs. The answer is one line:
 * the exit code, and in base64 what was printed on standard output and on standard error.
 */
public class Tools {
    private static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;
    // How the tool ended: the first exit counts, whatever its own handlers make of ours.
    private static String ended;

    private static Ended end(int code) {
        if (ended == null) {
            System.out.flush();
            System.err.flush();
            ended = code + " " + text(out) + " " + text(err);
        }
        return new Ended();
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        PrintStream faults = System.err;
        Exit.setExitProcedure((code, message) -> { throw end(code); });
        Exit.setHaltProcedure((code, message) -> { throw end(code); });
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split("\t", -1);
            out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
            ended = null;
            System.setIn(new ByteArrayInputStream(new byte[0]));
            System.setOut(new PrintStream(out, true));
            System.setErr(new PrintStream(err, true));
            run(words);
            answers.println(ended);
            answers.flush();
        }
        System.setErr(faults);
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] words) {
        try {
            Class.forName(words[0])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            end(0);
        } catch (Throwable fault) {
            if (ended == null) {
                fault.printStackTrace(System.err);
                end(1);
            }
        }
    }

    private static String text(ByteArrayOutputStream bytes) {
        String coded = Base64.getEncoder().encodeToString(bytes.toByteArray());
        return coded.isEmpty() ? "-" : coded;
    }
}
