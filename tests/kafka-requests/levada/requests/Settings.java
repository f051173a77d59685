package levada.requests;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.security.auth.login.AppConfigurationEntry;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.JaasContext;
import scala.jdk.javaapi.CollectionConverters;

/** Properties of a process: those of the test, with the addresses and users that it left open. */
final class Settings {
    private final KafkaConfig config;
    private final Properties properties = new Properties();

    private Settings(KafkaConfig config) {
        this.config = config;
    }

    /**
     * The properties of a broker with these ports and directories. Blocks until the controllers have
     * their ports.
     */
    static Properties of(KafkaConfig config, SharedServer given, Map<String, Integer> ports, List<String> logs) {
        Settings settings = new Settings(config);
        config.props().forEach((key, value) -> {
            if (value != null) {
                settings.properties.setProperty(key.toString(), text(value));
            }
        });
        settings.addresses(ports);
        settings.properties.setProperty("log.dirs", String.join(",", logs));
        settings.properties.remove("metadata.log.dir");
        if (config.processRoles().size() > 1) {
            settings.standalone();
        } else {
            settings.properties.setProperty("process.roles", "broker");
            settings.controllers(given.controllerQuorumVotersFuture().join());
        }
        settings.shareState();
        settings.tiers(given.clusterId());
        settings.users();
        settings.keys();
        settings.stores();
        return settings.properties;
    }

    private static String text(Object value) {
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof Collection<?> list) {
            return list.stream().map(Settings::text).collect(Collectors.joining(","));
        }
        return value.toString();
    }

    private void addresses(Map<String, Integer> ports) {
        properties.setProperty("listeners", join(config.dataPlaneListeners(), ports));
        properties.setProperty("advertised.listeners", join(config.effectiveAdvertisedBrokerListeners(), ports));
    }

    private static String join(scala.collection.Seq<Endpoint> listeners, Map<String, Integer> ports) {
        return CollectionConverters.asJava(listeners).stream().map(listener -> {
            String host = listener.host() == null ? "localhost" : listener.host();
            int port = listener.port() == 0 ? ports.get(listener.listener()) : listener.port();
            return listener.listener() + "://" + host + ":" + port;
        }).collect(Collectors.joining(","));
    }

    /**
     * Levada always stores the state of share groups. Where a test has Kafka store none, the topic of
     * the states gets one replica, as there may be one broker.
     */
    private void shareState() {
        if (properties.getProperty("group.share.persister.class.name", "stores").isEmpty()) {
            properties.putIfAbsent("share.coordinator.state.topic.replication.factor", "1");
            properties.putIfAbsent("share.coordinator.state.topic.min.isr", "1");
            properties.putIfAbsent("share.coordinator.state.topic.num.partitions", "1");
        }
    }

    /** A directory that the brokers of the cluster share, in place of a remote store that stores nothing. */
    private void tiers(String cluster) {
        if (Boolean.parseBoolean(properties.getProperty("remote.log.storage.system.enable"))) {
            properties.remove("remote.log.storage.manager.class.name");
            properties.remove("remote.log.metadata.manager.class.name");
            Path store = Path.of(System.getProperty("levada.scratch"), "store-" + cluster);
            properties.setProperty("levada.remote.store", store.toUri().toString());
        }
    }

    /** The process is its own controller, without a listener for others. */
    private void standalone() {
        properties.remove("controller.quorum.voters");
        properties.remove("controller.quorum.bootstrap.servers");
        properties.remove("controller.listener.names");
    }

    private void controllers(Map<Integer, InetSocketAddress> voters) {
        if (!voters.isEmpty()) {
            List<String> list = new ArrayList<>();
            voters.forEach((id, address) -> list.add(id + "@" + address.getHostString() + ":" + address.getPort()));
            properties.setProperty("controller.quorum.voters", String.join(",", list));
        }
    }

    /** Users of SASL, which Kafka reads from a file that the JVM names. */
    private void users() {
        List<String> names = new ArrayList<>();
        CollectionConverters.asJava(config.dataPlaneListeners()).stream()
            .filter(listener -> listener.securityProtocol().name.startsWith("SASL_"))
            .forEach(listener -> names.add(listener.listener()));
        names.addAll(config.controllerListenerNames());
        for (String name : names) {
            String prefix = "listener.name." + name.toLowerCase(Locale.ROOT) + ".";
            for (String mechanism : mechanisms(prefix)) {
                String key = prefix + mechanism.toLowerCase(Locale.ROOT) + ".sasl.jaas.config";
                if (!properties.containsKey(key) && !properties.containsKey("sasl.jaas.config")) {
                    login(name, mechanism).ifPresent(login -> properties.setProperty(key, login));
                }
            }
        }
    }

    /** Keys of TLS without the encryption of PKCS #12, which Levada does not read. */
    private void keys() {
        for (String name : properties.stringPropertyNames()) {
            String key = properties.getProperty(name);
            String lock = name.replace("ssl.keystore.key", "ssl.key.password");
            if (name.endsWith("ssl.keystore.key") && key.contains("ENCRYPTED") && properties.containsKey(lock)) {
                properties.setProperty(name, decrypted(key, properties.getProperty(lock)));
                properties.remove(lock);
            }
        }
    }

    /**
     * Stores of keys and of trusted certificates in Java's own format, which Levada does not read, as PKCS #12. Their
     * certificates have no alternative name, which Levada compares with the host of another broker.
     */
    private void stores() {
        for (String name : properties.stringPropertyNames()) {
            String type = name.replace("location", "type");
            boolean isStore = name.endsWith("ssl.truststore.location") || name.endsWith("ssl.keystore.location");
            if (isStore && "JKS".equals(properties.getProperty(type, "JKS"))) {
                String password = properties.getProperty(name.replace("location", "password"));
                String lock = name.replaceAll("ssl\\..*store.location", "ssl.key.password");
                String inner = properties.getProperty(lock, password);
                properties.setProperty(name, converted(Path.of(properties.getProperty(name)), password, inner));
                properties.setProperty(type, "PKCS12");
                properties.setProperty("ssl.endpoint.identification.algorithm", "");
            }
        }
    }

    private static String converted(Path path, String password, String inner) {
        Path other = path.resolveSibling(path.getFileName() + ".p12");
        try (OutputStream out = Files.newOutputStream(other)) {
            KeyStore store = KeyStore.getInstance(path.toFile(), password.toCharArray());
            KeyStore copy = KeyStore.getInstance("PKCS12");
            copy.load(null, null);
            for (String alias : Collections.list(store.aliases())) {
                if (store.isKeyEntry(alias)) {
                    Key key = store.getKey(alias, inner.toCharArray());
                    copy.setKeyEntry(alias, key, inner.toCharArray(), store.getCertificateChain(alias));
                } else {
                    copy.setCertificateEntry(alias, store.getCertificate(alias));
                }
            }
            copy.store(out, password.toCharArray());
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalStateException(path + " cannot be converted", error);
        }
        return other.toString();
    }

    private static String decrypted(String pem, String password) {
        byte[] content = Base64.getMimeDecoder().decode(pem.replaceAll("-----[^-]+-----", ""));
        try {
            EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(content);
            SecretKeyFactory factory = SecretKeyFactory.getInstance(info.getAlgName());
            Cipher cipher = Cipher.getInstance(info.getAlgName());
            cipher.init(Cipher.DECRYPT_MODE, factory.generateSecret(new PBEKeySpec(password.toCharArray())),
                info.getAlgParameters());
            String key = Base64.getMimeEncoder().encodeToString(info.getKeySpec(cipher).getEncoded());
            return "-----BEGIN PRIVATE KEY-----\n" + key + "\n-----END PRIVATE KEY-----\n";
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalStateException("a key cannot be decrypted", error);
        }
    }

    private List<String> mechanisms(String prefix) {
        String all = properties.getProperty("sasl.enabled.mechanisms", "");
        String own = properties.getProperty(prefix + "sasl.enabled.mechanisms", all);
        return own.isBlank() ? List.of() : List.of(own.split(" *, *"));
    }

    private static java.util.Optional<String> login(String listener, String mechanism) {
        try {
            JaasContext context = JaasContext.loadServerContext(new ListenerName(listener), mechanism, Map.of());
            String module = switch (mechanism) {
                case "PLAIN" -> "PlainLoginModule";
                case "OAUTHBEARER" -> "OAuthBearerLoginModule";
                default -> "ScramLoginModule";
            };
            return context.configurationEntries().stream()
                .filter(entry -> entry.getLoginModuleName().endsWith(module))
                .map(Settings::render).findFirst();
        } catch (IllegalArgumentException missing) {
            return java.util.Optional.empty();
        }
    }

    private static String render(AppConfigurationEntry entry) {
        String options = entry.getOptions().entrySet().stream()
            .map(option -> " " + option.getKey() + "=\""
                + option.getValue().toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"")
            .collect(Collectors.joining());
        return entry.getLoginModuleName() + " required" + options + ";";
    }
}
