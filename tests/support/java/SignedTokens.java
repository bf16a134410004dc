import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Takes tokens of AWS MSK's IAM as a broker of MSK does: a request for kafka-cluster:Connect, signed by Signature Version 4 with the
 * secret of its access key. The key's id is the user's name.
 *
 * <p>Options: "keys", a file with secrets by the ids of those keys that may connect, and "region"; "accepted", a file to which the
 * signature of each token goes that was taken.
 */
public final class SignedTokens implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final Set<String> NOT_SIGNED = Set.of("X-Amz-Signature", "User-Agent");
    private Path keys;
    private Path accepted;
    private String region;

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        Map<String, ?> options = entries.get(0).getOptions();
        keys = Path.of((String) options.get("keys"));
        accepted = Path.of((String) options.get("accepted"));
        region = (String) options.get("region");
    }

    @Override
    public void handle(Callback[] callbacks) {
        for (Callback each : callbacks) {
            if (each instanceof OAuthBearerValidatorCallback asked) {
                try {
                    asked.token(token(asked.tokenValue()));
                } catch (Exception refused) {
                    asked.error("Access denied: " + refused.getMessage(), null, null);
                }
            } else if (each instanceof OAuthBearerExtensionsValidatorCallback asked) {
                asked.inputExtensions().map().keySet().forEach(asked::valid);
            }
        }
    }

    @Override
    public void close() {}

    private OAuthBearerToken token(String value) throws Exception {
        URI asked = URI.create(new String(Base64.getUrlDecoder().decode(value), StandardCharsets.UTF_8));
        TreeMap<String, String> signed = new TreeMap<>();
        TreeMap<String, String> read = new TreeMap<>();
        for (String each : asked.getRawQuery().split("&")) {
            String[] pair = each.split("=", 2);
            read.put(pair[0], URLDecoder.decode(pair[1], StandardCharsets.UTF_8));
            if (!NOT_SIGNED.contains(pair[0])) {
                signed.put(pair[0], pair[1]);
            }
        }
        String[] scope = read.get("X-Amz-Credential").split("/");
        String secret = secrets().getProperty(scope[0]);
        Instant at = Instant.from(TIME.parse(read.get("X-Amz-Date")));
        Instant until = at.plusSeconds(Long.parseLong(read.get("X-Amz-Expires")));
        require(secret != null, "no such key");
        require(read.get("Action").equals("kafka-cluster:Connect"), "another action");
        require(asked.getHost().equals("kafka." + region + ".amazonaws.com"), "another host");
        require(scope[2].equals(region) && scope[3].equals("kafka-cluster"), "another scope");
        require(Instant.now().isBefore(until), "expired");
        StringBuilder query = new StringBuilder();
        signed.forEach((name, text) -> query.append(query.isEmpty() ? "" : "&").append(name).append('=').append(text));
        String request = "GET\n/\n" + query + "\nhost:" + asked.getHost() + "\n\nhost\n" + digest("");
        String day = scope[1] + "/" + scope[2] + "/" + scope[3] + "/" + scope[4];
        String toSign = "AWS4-HMAC-SHA256\n" + read.get("X-Amz-Date") + "\n" + day + "\n" + digest(request);
        byte[] key = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : new String[] {scope[1], scope[2], scope[3], scope[4], toSign}) {
            key = hmac(key, part);
        }
        String signature = HexFormat.of().formatHex(key);
        require(signature.equals(read.get("X-Amz-Signature")), "another signature");
        Files.writeString(accepted, scope[0] + " " + signature + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return new Token(value, scope[0], at.toEpochMilli(), until.toEpochMilli());
    }

    private Properties secrets() throws Exception {
        Properties found = new Properties();
        try (var reader = Files.newBufferedReader(keys)) {
            found.load(reader);
        }
        return found;
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }

    private static String digest(String text) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
    }

    private static byte[] hmac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    private record Token(String value, String principalName, Long startTimeMs, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }
    }
}
