import java.lang.management.ManagementFactory;

// Busy SECONDS: for so long on a CPU, most of the time in fib and mix.
public class Busy {
  static int fib(int n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
  }

  static double mix(int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
      sum += Math.sqrt(i) * (i & 7);
    }
    return sum;
  }

  public static void main(String[] arguments) {
    var thread = ManagementFactory.getThreadMXBean();
    long end = Long.parseLong(arguments[0]) * 1_000_000_000L;
    double sum = 0;
    while (thread.getCurrentThreadCpuTime() < end) {
      sum += fib(25) + mix(100_000);
    }
    System.out.println(sum);
  }
}
