// Stacks that are hard to unwind: a recursion, under it libc's qsort calling back, std::regex's own
// recursion, and signal handlers on an alternate stack that hit all of it. Built as distributions
// build: no frame pointers.
//
//     callbacks SECONDS

#include <signal.h>
#include <sys/time.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <regex>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace
{

volatile std::uint64_t sink;

NOINLINE void handle_signal(int)
{
	for (std::uint64_t i = 0; i < 200'000; ++i)
		sink = (sink ^ i) * 1'099'511'628'211u;
}

NOINLINE int compare(const void *left, const void *right)
{
	const int a = *static_cast<const int *>(left);
	const int b = *static_cast<const int *>(right);
	sink = sink + static_cast<std::uint64_t>(a);
	return (a > b) - (a < b);
}

NOINLINE void sort_numbers()
{
	std::vector<int> numbers(20'000);
	std::iota(numbers.begin(), numbers.end(), 0);
	for (std::size_t i = 0; i < numbers.size(); ++i)
		std::swap(numbers[i], numbers[i * 7919 % numbers.size()]);
	::qsort(numbers.data(), numbers.size(), sizeof(int), compare);
}

NOINLINE void match_words()
{
	static const std::regex pattern("(a+b?)+[cd]*(e|f|gh)+");
	const std::string word = "aabaabaaabccddaabefghgh";
	for (int i = 0; i < 50; ++i)
		sink = sink + std::regex_search(word, pattern);
}

NOINLINE void descend(int frames)
{
	if (frames == 0) {
		sort_numbers();
		match_words();
	} else {
		descend(frames - 1);
	}
	sink = sink + 1; // no tail call
}

void take_signals_on_another_stack()
{
	static std::vector<char> memory(64 * 1024);
	stack_t stack{};
	stack.ss_sp = memory.data();
	stack.ss_size = memory.size();
	::sigaltstack(&stack, nullptr);
	struct sigaction action {
	};
	action.sa_handler = handle_signal;
	action.sa_flags = SA_ONSTACK | SA_RESTART;
	::sigaction(SIGALRM, &action, nullptr);
	const itimerval every_2_ms{{0, 2'000}, {0, 2'000}};
	::setitimer(ITIMER_REAL, &every_2_ms, nullptr);
}

} // namespace

int main(int argc, char **argv)
{
	const std::chrono::duration<double> seconds(argc > 1 ? std::atof(argv[1]) : 1);
	const auto end = std::chrono::steady_clock::now() + seconds;
	take_signals_on_another_stack();
	while (std::chrono::steady_clock::now() < end)
		descend(20);
}
