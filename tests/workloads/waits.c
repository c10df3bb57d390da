/*
 * Known waits, each in a function of its own, which measures them by the clock around the call.
 *
 *     waits [--gated] MODE [ARGUMENT ...]
 *
 *     sleep                    sleep_500_times: 500 sleeps of 10 ms
 *     futex                    wait_for_lock: 200 waits of 5 ms for hold_lock of another thread
 *     pipe [ROUNDS]            wait_for_answer: another thread answers after 20 us of work
 *     read DIRECTORY [READS]   read_cold_file: parts of a file that is not in the page cache
 *     fault [PAGES]            touch_page: 5 ms each, by userfaultfd; not every user may
 *     stall SECONDS MS         wait_for_answer, and two waits of MS in stall_among_short_waits
 *     stall-same SECONDS MS    the same, but the two are calls of wait_for_answer
 *     pool SECONDS THREADS     wait_for_work: idle threads, woken at the end
 *     migrate [SLEEPS]         sleep_while_moved: 10 ms each, meanwhile the thread gets another CPU
 *     exec, exit, kill         blocked_at_exec, blocked_at_exit, blocked_at_kill: 300 ms, then that
 *     preempt SECONDS          preempted_work: two busy threads on one CPU
 *     outlast SECONDS          outlast_the_session: one sleep; prints "ready" when it begins
 *     threads SECONDS          four named threads, which sleep, work, and do both
 *     shares SECONDS PAIRS     wait_six_tenths, wait_three_tenths, wait_one_tenth: as many calls
 *     storm SECONDS PAIRS      read_from_peer: pairs of threads that only switch
 *
 * With --gated it prints "ready", and begins when its input has a line. At the end it prints
 *
 *     {"functions": {NAME: {"count", "ns", "switches"}},
 *      "threads": {NAME: {"wall_ns", "run_ns", "delay_ns", "switches"}}}
 *
 * "count" and "ns" are those of the calls, "switches" the times that the kernel switched away from
 * the thread because it had to wait, as getrusage(2) has them: that is the number of blocks.
 * "run_ns" is the thread's CPU time, "delay_ns" its time on a run queue, by its schedstat.
 *
 * System calls are inline: the wait's own function is the innermost user frame of its stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KEEP_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))
#define PAGE 4096
#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull
#define MAX_RECORDS 64

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static inline __attribute__((always_inline)) long system_call(long number, long a, long b, long c,
							      long d)
{
	register long fourth __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result;
}

#define SLEEP(duration_ns)                                                                         \
	do {                                                                                       \
		const uint64_t left = (duration_ns);                                               \
		struct timespec pause = {.tv_sec = (time_t)(left / SECOND),                        \
					 .tv_nsec = (long)(left % SECOND)};                        \
		system_call(SYS_nanosleep, (long)&pause, 0, 0, 0);                                 \
	} while (0)

#define READ_BYTE(fd, byte) system_call(SYS_read, (fd), (long)(byte), 1, 0)
#define WRITE_BYTE(fd, byte) system_call(SYS_write, (fd), (long)(byte), 1, 0)
#define FUTEX_WAIT_FOR(word, value)                                                                \
	system_call(SYS_futex, (long)(word), FUTEX_WAIT_PRIVATE, (long)(value), 0)

static void futex_wake_all(atomic_uint *word)
{
	system_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t switches_of_thread(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

static void spin_until(uint64_t end_ns)
{
	while (now_ns() < end_ns)
		;
}

/* What was measured. */

struct calls {
	char name[32];
	uint64_t count, ns, switches;
};

struct lifetime {
	char name[16];
	uint64_t wall_ns, run_ns, delay_ns, switches;
};

static struct calls all_calls[MAX_RECORDS];
static struct lifetime all_lifetimes[MAX_RECORDS];
static unsigned calls_known, lifetimes_known;
static atomic_flag records_locked = ATOMIC_FLAG_INIT; /* a mutex would be a wait of its own */

static void lock_records(void)
{
	while (atomic_flag_test_and_set(&records_locked))
		;
}

/* Adds those of another thread or turn. */
static void record(const char *name, const struct calls *calls)
{
	unsigned i = 0;

	lock_records();
	while (i < calls_known && strcmp(all_calls[i].name, name))
		i++;
	if (i == calls_known && i < MAX_RECORDS) {
		snprintf(all_calls[i].name, sizeof(all_calls[i].name), "%s", name);
		calls_known++;
	}
	if (i < MAX_RECORDS) {
		all_calls[i].count += calls->count;
		all_calls[i].ns += calls->ns;
		all_calls[i].switches += calls->switches;
	}
	atomic_flag_clear(&records_locked);
}

/* One wait that its own thread can't measure, since it never returns. */
static void record_one(const char *name, uint64_t ns)
{
	const struct calls calls = {.count = 1, .ns = ns, .switches = 1};

	record(name, &calls);
}

static void print_records(void)
{
	printf("{\"functions\":{");
	for (unsigned i = 0; i < calls_known; i++)
		printf("%s\"%s\":{\"count\":%llu,\"ns\":%llu,\"switches\":%llu}", i ? "," : "",
		       all_calls[i].name, (unsigned long long)all_calls[i].count,
		       (unsigned long long)all_calls[i].ns,
		       (unsigned long long)all_calls[i].switches);
	printf("},\"threads\":{");
	for (unsigned i = 0; i < lifetimes_known; i++)
		printf("%s\"%s\":{\"wall_ns\":%llu,\"run_ns\":%llu,\"delay_ns\":%llu,"
		       "\"switches\":%llu}",
		       i ? "," : "", all_lifetimes[i].name,
		       (unsigned long long)all_lifetimes[i].wall_ns,
		       (unsigned long long)all_lifetimes[i].run_ns,
		       (unsigned long long)all_lifetimes[i].delay_ns,
		       (unsigned long long)all_lifetimes[i].switches);
	printf("}}\n");
	fflush(stdout);
}

/* `calls` gets what the statement took; around a loop, MEASURE_SWITCHES adds its switches. */
#define MEASURE(calls, statement)                                                                  \
	do {                                                                                       \
		const uint64_t began_ns = now_ns();                                                \
		statement;                                                                         \
		(calls)->ns += now_ns() - began_ns;                                                \
		(calls)->count++;                                                                  \
	} while (0)
#define MEASURE_SWITCHES(calls, statement)                                                         \
	do {                                                                                       \
		const uint64_t switches_before = switches_of_thread();                             \
		statement;                                                                         \
		(calls)->switches += switches_of_thread() - switches_before;                       \
	} while (0)

/* Threads. */

struct thread {
	pthread_t id;
	char name[16];
	void (*body)(void *);
	void *argument;
	bool has_lifetime; /* it is printed */
};

static uint64_t run_delay_ns(void)
{
	unsigned long long run = 0, delay = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "re");

	must(file && fscanf(file, "%llu %llu", &run, &delay) == 2, "schedstat");
	fclose(file);
	return delay;
}

/* A lifetime is that of the body: what comes before, such as the wait for the first CPU, is not in
 * it. The CPU time is that of schedstat, which itself is late by up to a tick. */
static void *run_thread(void *argument)
{
	struct thread *thread = argument;
	struct lifetime lifetime = {};
	uint64_t began_ns, delay_before, run_before, switches_before;

	pthread_setname_np(pthread_self(), thread->name);
	if (!thread->has_lifetime) {
		thread->body(thread->argument);
		return NULL;
	}
	delay_before = run_delay_ns();
	switches_before = switches_of_thread();
	run_before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	began_ns = now_ns();
	thread->body(thread->argument);
	lifetime.wall_ns = now_ns() - began_ns;
	lifetime.run_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - run_before;
	lifetime.delay_ns = run_delay_ns() - delay_before;
	lifetime.switches = switches_of_thread() - switches_before;
	memcpy(lifetime.name, thread->name, sizeof(lifetime.name));
	lock_records();
	if (lifetimes_known < MAX_RECORDS)
		all_lifetimes[lifetimes_known++] = lifetime;
	atomic_flag_clear(&records_locked);
	return NULL;
}

static void start_thread(struct thread *thread, const char *name, void (*body)(void *),
			 void *argument)
{
	pthread_attr_t attributes;

	snprintf(thread->name, sizeof(thread->name), "%s", name);
	thread->body = body;
	thread->argument = argument;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	errno = pthread_create(&thread->id, &attributes, run_thread, thread);
	must(errno == 0, "pthread_create");
	pthread_attr_destroy(&attributes);
}

static void join(struct thread *thread)
{
	pthread_join(thread->id, NULL);
}

/* sleep */

NOINLINE void sleep_500_times(void)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, for (int i = 0; i < 500; i++) MEASURE(&calls, SLEEP(10 * MS)));
	record("sleep_500_times", &calls);
}

/* futex: the word counts how often the lock was released. */

static atomic_uint released;

NOINLINE void hold_lock(void *unused)
{
	struct calls calls = {};

	(void)unused;
	KEEP_FRAME();
	for (unsigned i = 0; i < 200; i++) {
		MEASURE_SWITCHES(&calls, MEASURE(&calls, SLEEP(5 * MS)));
		atomic_store(&released, i + 1);
		futex_wake_all(&released);
	}
	record("hold_lock", &calls);
}

NOINLINE void wait_for_lock(void)
{
	struct calls calls = {};

	KEEP_FRAME();
	for (unsigned i = 0; i < 200; i++)
		MEASURE_SWITCHES(&calls, MEASURE(&calls, while (atomic_load(&released) <= i)
								 FUTEX_WAIT_FOR(&released, i)));
	record("wait_for_lock", &calls);
}

static void futex(void)
{
	struct thread holder = {.has_lifetime = true};

	start_thread(&holder, "holder", hold_lock, NULL);
	wait_for_lock();
	join(&holder);
}

/* Pairs: a thread asks by a byte, whose value says how its peer answers. */

enum { ANSWER = 'a', ANSWER_AT_ONCE = 'b', STALL = 's', END = 'e' };

struct pair {
	int to_peer[2], from_peer[2];
	uint64_t end_ns, stall_ns, rounds, switches;
	struct thread asking, answering;
};

static void open_pair(struct pair *pair)
{
	must(pipe(pair->to_peer) == 0 && pipe(pair->from_peer) == 0, "pipe");
}

NOINLINE char wait_for_question(struct pair *pair)
{
	char byte = END;

	KEEP_FRAME();
	must(READ_BYTE(pair->to_peer[0], &byte) == 1, "read");
	return byte;
}

NOINLINE void stall_before_answer(struct pair *pair)
{
	KEEP_FRAME();
	SLEEP(pair->stall_ns);
}

static void answer(void *argument)
{
	struct pair *pair = argument;

	for (;;) {
		const char question = wait_for_question(pair);

		if (question == END)
			return;
		if (question == ANSWER)
			spin_until(now_ns() + 20 * US);
		if (question == STALL)
			stall_before_answer(pair);
		must(WRITE_BYTE(pair->from_peer[1], &question) == 1, "write");
	}
}

static void ask(struct pair *pair, char question)
{
	must(WRITE_BYTE(pair->to_peer[1], &question) == 1, "write");
}

/* Each is a wait at an address of its own. */
#define WAIT_IN(function)                                                                          \
	NOINLINE void function(struct pair *pair)                                                  \
	{                                                                                          \
		char byte;                                                                         \
                                                                                                   \
		KEEP_FRAME();                                                                      \
		must(READ_BYTE(pair->from_peer[0], &byte) == 1, "read");                           \
	}

WAIT_IN(wait_for_answer)
WAIT_IN(stall_among_short_waits)
WAIT_IN(wait_six_tenths)
WAIT_IN(wait_three_tenths)
WAIT_IN(wait_one_tenth)
WAIT_IN(read_from_peer)

static void ping_pong(uint64_t rounds)
{
	struct pair pair = {.answering.has_lifetime = true};
	struct calls calls = {};

	open_pair(&pair);
	start_thread(&pair.answering, "answering", answer, &pair);
	MEASURE_SWITCHES(
		&calls, for (uint64_t i = 0; i < rounds; i++) {
			ask(&pair, ANSWER);
			MEASURE(&calls, wait_for_answer(&pair));
		});
	record("wait_for_answer", &calls);
	ask(&pair, END);
	join(&pair.answering);
}

/* read: below a thousand a second, so that each is sampled. */

NOINLINE void read_cold_file(int file, unsigned page)
{
	static char buffer[PAGE];

	KEEP_FRAME();
	must(system_call(SYS_pread64, file, (long)buffer, PAGE, (long)page * PAGE) == PAGE,
	     "pread");
}

NOINLINE void pause_between_reads(void)
{
	KEEP_FRAME();
	SLEEP(2 * MS);
}

static void read_pages(int file, unsigned pages, unsigned reads)
{
	struct calls calls = {};
	uint32_t random = 1;

	for (unsigned i = 0; i < reads; i++) {
		random = random * 1664525 + 1013904223;
		MEASURE_SWITCHES(&calls, MEASURE(&calls, read_cold_file(file, random % pages)));
		pause_between_reads();
	}
	record("read_cold_file", &calls);
}

static void read_file_in(const char *directory, unsigned reads)
{
	enum { BYTES = 64 << 20 };
	static char part[1 << 20];
	char path[4096];
	int file;

	snprintf(path, sizeof(path), "%s/waits_XXXXXX", directory);
	file = mkstemp(path);
	must(file >= 0, path);
	unlink(path);
	for (size_t i = 0; i < sizeof(part); i++)
		part[i] = (char)(i * 31);
	for (int i = 0; i < BYTES / (int)sizeof(part); i++)
		must(write(file, part, sizeof(part)) == (ssize_t)sizeof(part), "write");
	must(fsync(file) == 0, "fsync");
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead */
	read_pages(file, BYTES / PAGE, reads);
	close(file);
}

/* fault */

static atomic_int faults_end;

static void answer_fault(int faults)
{
	struct uffd_msg message;
	struct uffdio_zeropage page = {.range.len = PAGE};

	if (read(faults, &message, sizeof(message)) != (ssize_t)sizeof(message))
		return;
	page.range.start = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
	SLEEP(5 * MS);
	ioctl(faults, UFFDIO_ZEROPAGE, &page);
}

static void answer_faults(void *argument)
{
	struct pollfd event = {.fd = *(int *)argument, .events = POLLIN};

	while (!atomic_load(&faults_end))
		if (poll(&event, 1, 100) > 0)
			answer_fault(event.fd);
}

NOINLINE void touch_page(volatile char *bytes, unsigned pages)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, for (unsigned i = 0; i < pages; i++)
					 MEASURE(&calls, (void)bytes[(size_t)i * PAGE]));
	record("touch_page", &calls);
}

static void fault(unsigned pages)
{
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	struct thread answering = {};
	char *bytes;

	must(faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0, "userfaultfd");
	bytes = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(bytes != MAP_FAILED, "mmap");
	madvise(bytes, (size_t)pages * PAGE, MADV_NOHUGEPAGE);
	range.range.start = (uintptr_t)bytes;
	range.range.len = (uint64_t)pages * PAGE;
	must(ioctl(faults, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
	start_thread(&answering, "answering", answer_faults, &faults);
	touch_page(bytes, pages);
	atomic_store(&faults_end, 1);
	join(&answering);
	close(faults);
}

/* stall: with a third of the time before the first one and between the two. */

static void stall_twice(void (*stalled)(struct pair *), const char *name, double seconds,
			uint64_t stall_ns)
{
	struct pair pair = {.stall_ns = stall_ns};
	struct calls calls = {}, stalls = {};
	const uint64_t began_ns = now_ns();
	uint64_t next_ns = began_ns + (uint64_t)(seconds / 3 * 1e9);
	const uint64_t end_ns = began_ns + (uint64_t)(seconds * 1e9) + 2 * stall_ns;

	open_pair(&pair);
	start_thread(&pair.answering, "answering", answer, &pair);
	while (now_ns() < end_ns) {
		if (now_ns() >= next_ns && stalls.count < 2) {
			ask(&pair, STALL);
			MEASURE_SWITCHES(&stalls, MEASURE(&stalls, stalled(&pair)));
			next_ns = now_ns() + (uint64_t)(seconds / 3 * 1e9);
		}
		MEASURE_SWITCHES(
			&calls, for (int i = 0; i < 1000; i++) {
				ask(&pair, ANSWER);
				MEASURE(&calls, wait_for_answer(&pair));
			});
	}
	record("wait_for_answer", &calls);
	record(name, &stalls);
	ask(&pair, END);
	join(&pair.answering);
}

/* pool */

static atomic_uint pool_ends;

NOINLINE void wait_for_work(void *unused)
{
	struct calls calls = {};

	(void)unused;
	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, MEASURE(&calls, while (!atomic_load(&pool_ends))
							 FUTEX_WAIT_FOR(&pool_ends, 0)));
	record("wait_for_work", &calls);
}

static void pool(double seconds, unsigned count)
{
	struct thread *threads = calloc(count, sizeof(*threads));
	char name[16];

	must(threads, "calloc");
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "pool-%u", i % 100000);
		start_thread(&threads[i], name, wait_for_work, NULL);
	}
	puts("running");
	fflush(stdout);
	SLEEP((uint64_t)(seconds * 1e9));
	atomic_store(&pool_ends, 1);
	futex_wake_all(&pool_ends);
	for (unsigned i = 0; i < count; i++)
		join(&threads[i]);
	free(threads);
}

/* migrate */

static atomic_int moved_tid, moved_ends;

NOINLINE void sleep_while_moved(unsigned sleeps)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls,
			 for (unsigned i = 0; i < sleeps; i++) MEASURE(&calls, SLEEP(10 * MS)));
	record("sleep_while_moved", &calls);
}

static void be_moved(void *argument)
{
	atomic_store(&moved_tid, (int)gettid());
	sleep_while_moved(*(unsigned *)argument);
	atomic_store(&moved_ends, 1);
}

static void migrate(unsigned sleeps)
{
	struct thread moved = {.has_lifetime = true};
	cpu_set_t allowed;
	int cpu = 0;

	must(sched_getaffinity(0, sizeof(allowed), &allowed) == 0, "sched_getaffinity");
	start_thread(&moved, "moved", be_moved, &sleeps);
	while (!atomic_load(&moved_ends)) {
		cpu_set_t one;

		SLEEP(4 * MS);
		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, &allowed));
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (atomic_load(&moved_tid))
			sched_setaffinity(atomic_load(&moved_tid), sizeof(one), &one);
	}
	join(&moved);
}

/* exec, exit, kill: a wait that never returns, and when it began. */

static _Atomic uint64_t blocked_since;
static atomic_uint never;

#define BLOCK_IN(function)                                                                         \
	NOINLINE void function(void *unused)                                                       \
	{                                                                                          \
		(void)unused;                                                                      \
		KEEP_FRAME();                                                                      \
		atomic_store(&blocked_since, now_ns());                                            \
		for (;;)                                                                           \
			FUTEX_WAIT_FOR(&never, 0);                                                 \
	}

BLOCK_IN(blocked_at_exec)
BLOCK_IN(blocked_at_exit)

NOINLINE void sleep_meanwhile(void)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, MEASURE(&calls, SLEEP(300 * MS)));
	record("sleep_meanwhile", &calls);
}

static uint64_t block_meanwhile(struct thread *thread, void (*body)(void *))
{
	start_thread(thread, "blocked", body, NULL);
	sleep_meanwhile();
	must(atomic_load(&blocked_since) != 0, "the thread has not begun");
	return atomic_load(&blocked_since);
}

static void exec_meanwhile(void)
{
	struct thread thread = {};
	char path[4096] = {}, since[32];

	must(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0, "readlink");
	snprintf(since, sizeof(since), "%llu",
		 (unsigned long long)block_meanwhile(&thread, blocked_at_exec));
	execl(path, path, "after-exec", since, NULL);
	must(false, path);
}

NOINLINE void sleep_after_exec(void)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, MEASURE(&calls, SLEEP(200 * MS)));
	record("sleep_after_exec", &calls);
}

static void after_exec(const char *since)
{
	record_one("blocked_at_exec", now_ns() - strtoull(since, NULL, 10));
	sleep_after_exec();
}

static void exit_meanwhile(void)
{
	struct thread thread = {};
	const uint64_t since = block_meanwhile(&thread, blocked_at_exit);

	record_one("blocked_at_exit", now_ns() - since);
	print_records();
	_exit(0);
}

NOINLINE void blocked_at_kill(_Atomic uint64_t *since)
{
	KEEP_FRAME();
	atomic_store(since, now_ns());
	for (;;)
		FUTEX_WAIT_FOR(&never, 0);
}

NOINLINE void wait_for_child(pid_t child)
{
	struct calls calls = {};

	KEEP_FRAME();
	MEASURE_SWITCHES(&calls, MEASURE(&calls, system_call(SYS_wait4, child, 0, 0, 0)));
	record("wait_for_child", &calls);
}

static void kill_meanwhile(void)
{
	_Atomic uint64_t *since =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	must(since != MAP_FAILED, "mmap");
	child = fork();
	must(child >= 0, "fork");
	if (child == 0)
		blocked_at_kill(since);
	sleep_meanwhile();
	must(atomic_load(since) != 0, "the child has not begun");
	kill(child, SIGKILL);
	record_one("blocked_at_kill", now_ns() - atomic_load(since));
	wait_for_child(child);
}

/* preempt */

NOINLINE void preempted_work(void *end_ns)
{
	KEEP_FRAME();
	spin_until(*(uint64_t *)end_ns);
}

static void preempt(double seconds)
{
	struct thread threads[2] = {{.has_lifetime = true}, {.has_lifetime = true}};
	uint64_t end_ns;
	cpu_set_t set, one;
	int cpu = 0;

	must(sched_getaffinity(0, sizeof(set), &set) == 0, "sched_getaffinity");
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	must(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
	end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	start_thread(&threads[0], "busy-a", preempted_work, &end_ns);
	start_thread(&threads[1], "busy-b", preempted_work, &end_ns);
	join(&threads[0]);
	join(&threads[1]);
}

/* outlast */

NOINLINE void outlast_the_session(double seconds)
{
	KEEP_FRAME();
	puts("ready");
	fflush(stdout);
	SLEEP((uint64_t)(seconds * 1e9));
}

/* threads */

static uint64_t threads_end_ns;

#define THREAD_THAT(function, work_ns, sleep_ns)                                                   \
	NOINLINE void function(void *unused)                                                       \
	{                                                                                          \
		struct calls calls = {};                                                           \
                                                                                                   \
		(void)unused;                                                                      \
		KEEP_FRAME();                                                                      \
		while (now_ns() < threads_end_ns) {                                                \
			spin_until(now_ns() + (work_ns));                                          \
			if ((sleep_ns) > 0)                                                        \
				MEASURE_SWITCHES(&calls, MEASURE(&calls, SLEEP(sleep_ns)));        \
		}                                                                                  \
		record(#function, &calls);                                                         \
	}

THREAD_THAT(sleep_long, 0, 100 * MS)
THREAD_THAT(sleep_briefly, 0, 600 * US)
THREAD_THAT(sleep_and_work, 2 * MS, 3 * MS)
THREAD_THAT(work_alone, 10 * MS, 0)

static void four_threads(double seconds)
{
	static const struct {
		const char *name;
		void (*body)(void *);
	} bodies[] = {{"sleeps-long", sleep_long},
		      {"sleeps-briefly", sleep_briefly},
		      {"sleeps-works", sleep_and_work},
		      {"works", work_alone}};
	struct thread threads[4] = {};

	threads_end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	for (int i = 0; i < 4; i++) {
		threads[i].has_lifetime = true;
		start_thread(&threads[i], bodies[i].name, bodies[i].body, NULL);
	}
	for (int i = 0; i < 4; i++)
		join(&threads[i]);
}

/* shares, storm */

static void ask_by_shares(void *argument)
{
	struct pair *pair = argument;
	struct calls six = {}, three = {}, one = {};

	while (now_ns() < pair->end_ns) {
		for (int i = 0; i < 10; i++) {
			ask(pair, ANSWER_AT_ONCE);
			if (i < 6)
				MEASURE(&six, wait_six_tenths(pair));
			else if (i < 9)
				MEASURE(&three, wait_three_tenths(pair));
			else
				MEASURE(&one, wait_one_tenth(pair));
		}
	}
	record("wait_six_tenths", &six);
	record("wait_three_tenths", &three);
	record("wait_one_tenth", &one);
	ask(pair, END);
}

static void ask_always(void *argument)
{
	struct pair *pair = argument;
	struct calls calls = {};

	MEASURE_SWITCHES(
		&calls, while (now_ns() < pair->end_ns) {
			for (int i = 0; i < 100; i++) {
				ask(pair, ANSWER_AT_ONCE);
				MEASURE(&calls, read_from_peer(pair));
			}
		});
	record("read_from_peer", &calls);
	ask(pair, END);
}

static void pairs(double seconds, unsigned count, void (*asking)(void *))
{
	struct pair *all = calloc(count, sizeof(*all));
	const uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	struct rusage usage;
	struct calls switches = {};

	must(all, "calloc");
	for (unsigned i = 0; i < count; i++) {
		open_pair(&all[i]);
		all[i].end_ns = end_ns;
		start_thread(&all[i].answering, "answering", answer, &all[i]);
		start_thread(&all[i].asking, "asking", asking, &all[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		join(&all[i].asking);
		join(&all[i].answering);
	}
	free(all);
	getrusage(RUSAGE_SELF, &usage);
	switches.switches = (uint64_t)usage.ru_nvcsw;
	record("process", &switches);
}

/* main */

static const char *argument(int argc, char **argv, int at, const char *otherwise)
{
	if (at < argc)
		return argv[at];
	must(otherwise, "an argument is missing");
	return otherwise;
}

static int number(int argc, char **argv, int at, const char *otherwise)
{
	return atoi(argument(argc, argv, at, otherwise));
}

static double seconds_in(int argc, char **argv)
{
	return atof(argument(argc, argv, 2, NULL));
}

/* Those that measure one wait. */
static bool run_simple(const char *mode, int argc, char **argv)
{
	if (!strcmp(mode, "sleep"))
		sleep_500_times();
	else if (!strcmp(mode, "futex"))
		futex();
	else if (!strcmp(mode, "pipe"))
		ping_pong((uint64_t)number(argc, argv, 2, "20000"));
	else if (!strcmp(mode, "read"))
		read_file_in(argument(argc, argv, 2, NULL),
			     (unsigned)number(argc, argv, 3, "1000"));
	else if (!strcmp(mode, "fault"))
		fault((unsigned)number(argc, argv, 2, "200"));
	else if (!strcmp(mode, "migrate"))
		migrate((unsigned)number(argc, argv, 2, "200"));
	else if (!strcmp(mode, "exec"))
		exec_meanwhile();
	else if (!strcmp(mode, "after-exec"))
		after_exec(argument(argc, argv, 2, NULL));
	else if (!strcmp(mode, "exit"))
		exit_meanwhile();
	else if (!strcmp(mode, "kill"))
		kill_meanwhile();
	else
		return false;
	return true;
}

/* Those that take a time. */
static bool run_timed(const char *mode, int argc, char **argv)
{
	if (!strcmp(mode, "stall"))
		stall_twice(stall_among_short_waits, "stall_among_short_waits",
			    seconds_in(argc, argv), (uint64_t)number(argc, argv, 3, "3000") * MS);
	else if (!strcmp(mode, "stall-same"))
		stall_twice(wait_for_answer, "stalls", seconds_in(argc, argv),
			    (uint64_t)number(argc, argv, 3, "3000") * MS);
	else if (!strcmp(mode, "pool"))
		pool(seconds_in(argc, argv), (unsigned)number(argc, argv, 3, "64"));
	else if (!strcmp(mode, "preempt"))
		preempt(seconds_in(argc, argv));
	else if (!strcmp(mode, "outlast"))
		outlast_the_session(seconds_in(argc, argv));
	else if (!strcmp(mode, "threads"))
		four_threads(seconds_in(argc, argv));
	else if (!strcmp(mode, "shares"))
		pairs(seconds_in(argc, argv), (unsigned)number(argc, argv, 3, "8"), ask_by_shares);
	else if (!strcmp(mode, "storm"))
		pairs(seconds_in(argc, argv), (unsigned)number(argc, argv, 3, "2"), ask_always);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	bool is_known;

	if (argc > 1 && !strcmp(argv[1], "--gated")) {
		argc--;
		argv++;
		puts("ready");
		fflush(stdout);
		must(getchar() != EOF, "no line");
	}
	if (argc < 2)
		return 2;
	is_known = run_simple(argv[1], argc, argv) || run_timed(argv[1], argc, argv);
	if (!is_known) {
		fprintf(stderr, "no such mode: %s\n", argv[1]);
		return 2;
	}
	print_records();
	return 0;
}
