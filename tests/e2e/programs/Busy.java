// Busy SECONDS: most of the time in fib and mix.
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
    long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
    double sum = 0;
    while (System.nanoTime() < end) {
      sum += fib(25) + mix(100_000);
    }
    System.out.println(sum);
  }
}
