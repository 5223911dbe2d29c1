import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/** Takes a lock with Curator as it is told on its input: acquire, try, release, end. Arguments: HOSTS PATH mutex|read|write. */
public class CuratorTaker {
  public static void main(String[] args) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    InterProcessMutex mutex;
    if (args[2].equals("mutex")) {
      mutex = new InterProcessMutex(client, args[1]);
    } else {
      InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, args[1]);
      mutex = args[2].equals("read") ? both.readLock() : both.writeLock();
    }
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null && !line.equals("end"); line = input.readLine()) {
      switch (line) {
        case "acquire":
          mutex.acquire();
          System.out.println("held");
          break;
        case "try":
          System.out.println(mutex.acquire(300, TimeUnit.MILLISECONDS) ? "held" : "refused");
          break;
        default:
          mutex.release();
          System.out.println("released");
      }
    }
    client.close();
  }
}
