// A small JIT that runs one function after the other at the same place, and writes a jitdump as
// runtimes do: through a buffer of 4 KiB, so that the last records are in the file only after its
// end.
//
//     reuse SECONDS [silently]
//
// It runs for that time on a CPU. The native function run_K runs gen_I for some milliseconds, which
// calls marker_K, with K = I mod 32: a profile with gen_I beside another K's run_K or marker_K is
// wrong. Places overlap in part. The jitdump is jit-PID.dump in the working directory.

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/formats/jit/jitdump_writer.h"

namespace
{

constexpr int kKinds = 32;
constexpr std::size_t kBufferBytes = 4096;
constexpr std::size_t kPlaceStep = 24; // less than a function's size
constexpr double kLife = 0.008;	       // seconds of each function

using Code = void (*)(std::uint32_t rounds);

void work()
{
	for (volatile int i = 0; i < 2000;)
		i = i + 1;
}

} // namespace

#define DEFINE_KIND(k)                                                                             \
	extern "C" [[gnu::noinline]] void marker_##k()                                             \
	{                                                                                          \
		work();                                                                            \
		asm volatile("");                                                                  \
	}                                                                                          \
	extern "C" [[gnu::noinline]] void run_##k(Code code)                                       \
	{                                                                                          \
		code(4);                                                                           \
		asm volatile("");                                                                  \
	}
// clang-format off
#define EACH_KIND(X)                                                                    \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
  X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29)   \
  X(30) X(31)
// clang-format on
EACH_KIND(DEFINE_KIND)
#define KIND_ENTRY(k) {marker_##k, run_##k},

namespace
{

struct Kind {
	void (*marker)();
	void (*run)(Code);
};
constexpr std::array<Kind, kKinds> kAll{{EACH_KIND(KIND_ENTRY)}};

double seconds_on_cpu()
{
	timespec now{};
	::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::uint64_t now_ns()
{
	timespec now{};
	::clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
	       static_cast<std::uint64_t>(now.tv_nsec);
}

// A loop around a busy loop and a call, with a frame pointer:
//   push rbp; mov rbp,rsp; push rbx; push rbx; mov ebx,edi
//   again: mov ecx,4000; busy: dec ecx; jnz busy; mov rax,MARKER; call rax; dec ebx; jnz again
//   pop rbx; pop rbx; pop rbp; ret
std::string machine_code(void (*marker)())
{
	std::string code(
		"\x55\x48\x89\xe5\x53\x53\x89\xfb\xb9\xa0\x0f\x00\x00\xff\xc9\x75\xfc\x48\xb8", 19);
	std::uint64_t address = 0;
	std::memcpy(&address, &marker, sizeof address);
	code.append(reinterpret_cast<const char *>(&address), sizeof address);
	code.append("\xff\xd0\xff\xcb\x75\xe7\x5b\x5b\x5d\xc3", 10);
	return code;
}

class Dump
{
      public:
	Dump()
	{
		const std::string name = "jit-" + std::to_string(::getpid()) + ".dump";
		fd_ = ::open(name.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0644);
		writer_.header(
			{.pid = static_cast<std::uint32_t>(::getpid()), .timestamp = now_ns()});
		waiting_ = writer_.take();
		flush(waiting_.size());
		::mmap(nullptr, kBufferBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd_,
		       0); // the marker
	}
	~Dump()
	{
		flush(waiting_.size());
	}
	Dump(const Dump &) = delete;
	Dump &operator=(const Dump &) = delete;

	void load(const std::string &name, const std::uint8_t *place, const std::string &code,
		  std::uint64_t index)
	{
		writer_.load({.timestamp = now_ns(),
			      .pid = static_cast<std::uint32_t>(::getpid()),
			      .tid = static_cast<std::uint32_t>(::gettid()),
			      .address = reinterpret_cast<std::uint64_t>(place),
			      .code_index = index,
			      .name = name,
			      .code = code});
		waiting_ += writer_.take();
		flush(waiting_.size() / kBufferBytes * kBufferBytes);
	}

      private:
	void flush(std::size_t bytes)
	{
		if (bytes != 0 && ::write(fd_, waiting_.data(), bytes) < 0)
			std::exit(1);
		waiting_.erase(0, bytes);
	}

	int fd_ = -1;
	profd::JitDumpWriter writer_;
	std::string waiting_;
};

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPages = 65536;
constexpr int kCodeRights = PROT_READ | PROT_WRITE | PROT_EXEC;

volatile std::sig_atomic_t is_silent = 0;

std::uint8_t *take_memory(std::size_t bytes, std::uint8_t *place = nullptr, int flags = 0)
{
	void *const memory =
		::mmap(place, bytes, kCodeRights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (memory == MAP_FAILED)
		std::exit(1);
	return static_cast<std::uint8_t *>(memory);
}

// Replaces a page in one of the two ways: with munmap, or by mapping over it.
void replace_page(std::uint8_t *place, std::uint64_t round)
{
	const bool is_unmapped = round % 2 == 0;
	if (is_unmapped)
		::munmap(place, kPageBytes);
	take_memory(kPageBytes, place, is_unmapped ? MAP_FIXED_NOREPLACE : MAP_FIXED);
}

// Writes the code there and runs it for kLife.
void run(const Kind &kind, const std::string &code, std::uint8_t *place)
{
	std::memcpy(place, code.data(), code.size());
	const double end = seconds_on_cpu() + kLife;
	while (seconds_on_cpu() < end)
		kind.run(reinterpret_cast<Code>(place));
}

void record_and_run(Dump &dump, std::uint64_t i, std::uint8_t *place)
{
	const Kind &kind = kAll[i % kKinds];
	const std::string code = machine_code(kind.marker);
	dump.load("gen_" + std::to_string(i), place, code, i);
	run(kind, code, place);
}

void reuse_silently(Dump &dump, double end)
{
	std::uint8_t *const memory = take_memory(kPages * kPageBytes);
	std::uint8_t *const last = memory + (kPages - 1) * kPageBytes;
	for (std::uint64_t i = 0; seconds_on_cpu() < end && i < kPages - 1; ++i) {
		std::uint8_t *const place = memory + i * kPageBytes;
		record_and_run(dump, i, place);
		if (!is_silent) {
			replace_page(last, i);
			continue;
		}
		replace_page(place, i);
		const Kind &other = kAll[(i + kKinds / 2) % kKinds];
		run(other, machine_code(other.marker), place);
	}
}

} // namespace

int main(int argc, char **argv)
{
	const double end = seconds_on_cpu() + (argc > 1 ? std::atof(argv[1]) : 1);
	std::signal(SIGUSR1, [](int) { is_silent = 1; });
	Dump dump;
	if (argc > 2) {
		reuse_silently(dump, end);
		return 0;
	}
	std::uint8_t *const memory = take_memory(kPageBytes);
	for (std::uint64_t i = 0; seconds_on_cpu() < end; ++i)
		record_and_run(dump, i, memory + i % 3 * kPlaceStep);
	return 0;
}
