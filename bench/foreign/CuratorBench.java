import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Curator's InterProcessMutex in the scenarios of the benchmark.
 * pairs THREADS MS: prints pairs a second · drain THREADS, hot THREADS MS: prints "asked", then the counts.
 */
public class CuratorBench {
  interface Work { void run(int i) throws Exception; }

  static CuratorFramework client;

  public static void main(String[] args) throws Exception {
    client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100));
    client.start();
    client.blockUntilConnected();
    int threads = Integer.parseInt(args[2]);
    switch (args[1]) {
      case "pairs":
        long ms = Long.parseLong(args[3]);
        pairs(threads, ms / 2);
        System.out.println(pairs(threads, ms));
        break;
      case "drain":
        waiters("/curator/drain", threads, 0);
        break;
      default:
        waiters("/curator/hot", threads, Long.parseLong(args[3]));
    }
    client.close();
  }

  static double pairs(int threads, long ms) throws Exception {
    AtomicLong count = new AtomicLong();
    long from = System.nanoTime();
    long until = from + ms * 1_000_000;
    join(start(threads, i -> {
      InterProcessMutex mutex = new InterProcessMutex(client, "/curator/pairs-" + i);
      while (System.nanoTime() < until) {
        mutex.acquire();
        mutex.release();
        count.incrementAndGet();
      }
    }));
    return count.get() / ((System.nanoTime() - from) / 1e9);
  }

  // As in bench/scenarios.ts: what is measured is the waiting, not the compiler.
  static void warmUp() throws Exception {
    takeInTurns(1, 1, 500);
    takeInTurns(8, 2, 1_000);
  }

  static void takeInTurns(int names, int each, long ms) throws Exception {
    long until = System.nanoTime() + ms * 1_000_000;
    join(start(names * each, i -> {
      String path = "/curator/warm-" + ProcessHandle.current().pid() + "-" + i % names;
      InterProcessMutex mutex = new InterProcessMutex(client, path);
      while (System.nanoTime() < until) {
        mutex.acquire();
        mutex.release();
      }
    }));
  }

  static void waiters(String path, int threads, long ms) throws Exception {
    warmUp();
    System.out.println("ready");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
    long[] counts = new long[threads];
    long until = System.nanoTime() + ms * 1_000_000;
    List<Thread> all = start(threads, i -> {
      InterProcessMutex mutex = new InterProcessMutex(client, path);
      do {
        mutex.acquire();
        if (ms == 0) Thread.sleep(1);
        counts[i] += 1;
        mutex.release();
      } while (System.nanoTime() < until);
    });
    System.out.println("asked");
    join(all);
    StringBuilder text = new StringBuilder("counts");
    for (long count : counts) text.append(' ').append(count);
    System.out.println(text);
  }

  static List<Thread> start(int threads, Work work) {
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int index = i;
      Thread thread = new Thread(() -> {
        try {
          work.run(index);
        } catch (Exception error) {
          error.printStackTrace();
          System.exit(1);
        }
      });
      all.add(thread);
      thread.start();
    }
    return all;
  }

  static void join(List<Thread> all) throws InterruptedException {
    for (Thread thread : all) thread.join();
  }
}
