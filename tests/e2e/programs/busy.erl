% busy:run(Milliseconds): most of the time in fib/1.
-module(busy).
-export([run/1, fib/1]).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

run(Milliseconds) -> until(erlang:monotonic_time(millisecond) + Milliseconds).

until(End) ->
    fib(22),
    case erlang:monotonic_time(millisecond) < End of
        true -> until(End);
        false -> ok
    end.
