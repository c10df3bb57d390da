% busy:run(Milliseconds): for so long on a CPU, most of the time in fib/1.
-module(busy).
-export([run/1, fib/1]).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

run(Milliseconds) -> until(Milliseconds).

until(End) ->
    fib(22),
    case element(1, statistics(runtime)) < End of
        true -> until(End);
        false -> ok
    end.
