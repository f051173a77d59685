package levada.requests;

import kafka.server.SharedServer;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.authorizer.Authorizer;
import scala.Option;

/** Metadata of a process, as far as a test sees it in the JVM. */
public interface View {
    /** Begins to follow the metadata. */
    void start();

    /** Ends the view. The state that it has read stays. */
    void stop();

    /** True if the broker may serve clients. */
    boolean isUnfenced();

    SharedServer server();

    KRaftMetadataCache cache();

    Option<Plugin<Authorizer>> authorizer();

    DelegationTokenCache tokens();

    CredentialProvider credentials();
}
