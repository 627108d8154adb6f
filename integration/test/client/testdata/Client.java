import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Properties;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Connects to a server with the ssl.* settings of a properties file, as Kafka's client does, and prints the number of
 * certificates in the trust store and the first line that the server sends.
 *
 * <p>java Client.java client.properties host port
 */
public class Client {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    try (InputStream in = Files.newInputStream(Path.of(args[0]))) {
      settings.load(in);
    }
    char[] keyPassword =
        settings.getProperty("ssl.key.password", settings.getProperty("ssl.keystore.password")).toCharArray();
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(load(settings, "ssl.keystore"), keyPassword);
    KeyStore trusted = load(settings, "ssl.truststore");
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLSv1.3");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);

    try (SSLSocket socket =
        (SSLSocket) context.getSocketFactory().createSocket(args[1], Integer.parseInt(args[2]))) {
      SSLParameters parameters = socket.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("https");
      socket.setSSLParameters(parameters);
      socket.startHandshake();
      BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
      System.out.println(trusted.size() + " trusted");
      System.out.println(in.readLine());
    }
  }

  private static KeyStore load(Properties settings, String prefix) throws Exception {
    KeyStore store = KeyStore.getInstance(settings.getProperty(prefix + ".type", "JKS"));
    try (InputStream in = Files.newInputStream(Path.of(settings.getProperty(prefix + ".location")))) {
      store.load(in, settings.getProperty(prefix + ".password").toCharArray());
    }
    return store;
  }
}
