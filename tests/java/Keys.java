import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints the configuration keys of the Kafka on the class path, one a line, the columns separated by tabs: what is configured,
 * the name, the type, the default, how it may change, the values allowed, and the broker's keys that a topic or group inherits from.
 */
public class Keys {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        System.out.println("# Configuration keys of Apache Kafka " + AppInfoParser.getVersion() + ", printed by tests/java/Keys.java;"
                + " tests/tests/configuration.rs compares. A key without a default has (none), one whose default is null has null.");
        System.out.println("# kind\tname\ttype\tdefault\tchange\tvalues\tbroker keys");
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        Set<String> prefixed = DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS;
        Map<String, ConfigDef.ConfigKey> broker = keys(AbstractKafkaConfig.CONFIG_DEF);
        for (ConfigDef.ConfigKey key : broker.values()) {
            String mode = prefixed.contains(key.name) ? "per-listener" : modes.getOrDefault(key.name, "read-only");
            print(key.internalConfig ? "internal" : "broker", key, mode, "");
        }
        for (ConfigDef.ConfigKey key : keys(QuotaConfig.brokerQuotaConfigs()).values()) {
            print("dynamic", key, modes.getOrDefault(key.name, "unlisted"), "");
        }
        for (ConfigDef.ConfigKey key : keys(topics()).values()) {
            List<ConfigSynonym> behind = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of());
            String names = String.join(",", behind.stream().map(ConfigSynonym::name).toList());
            print(key.internalConfig ? "internal-topic" : "topic", key, "", names);
        }
        for (ConfigDef.ConfigKey key : keys(GroupConfig.CONFIG_DEF).values()) {
            Optional<String> behind = GroupConfig.brokerSynonym(key.name);
            print("group", key, "", behind.orElse(""));
        }
        for (ConfigDef.ConfigKey key : keys(ClientMetricsConfigs.configDef()).values()) {
            print("client-metrics", key, "", "");
        }
    }

    /** Kafka keeps it to itself. */
    private static ConfigDef topics() throws ReflectiveOperationException {
        Field field = LogConfig.class.getDeclaredField("CONFIG");
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static Map<String, ConfigDef.ConfigKey> keys(ConfigDef definition) {
        return new TreeMap<>(definition.configKeys());
    }

    private static void print(String kind, ConfigDef.ConfigKey key, String mode, String behind) {
        String standard = key.hasDefault() ? String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)) : "(none)";
        String values = key.validator == null ? "" : key.validator.toString();
        System.out.println(String.join("\t", kind, key.name, key.type.name(), standard, mode, values, behind));
    }
}
