/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The records of code objects, which are sent when a stack has one that was not announced. Leaf
 * first: what a tick leaves over, the next stack with it tries again.
 *
 * A program can make code objects without end, and put them where each read takes long. So a tick
 * describes a few, for a bounded time, and a CPU sends so many in a second; all users but root
 * together have three quarters of that, and one process a quarter.
 * The credits of mappings (credit.h) are another matter: names must not cost a user its mappings.
 */
#ifndef PROFD_INTERPRETED_CODE_H
#define PROFD_INTERPRETED_CODE_H

#include "bpf/counters.h"
#include "bpf/credit.h"
#include "bpf/interpreted_count.h"
#include "bpf/interpreters.h"
#include "bpf/ring.h"
#include "bpf/scratch.h"

/* Of a CPU, in a second. */
#define PROFD_CODES_PER_SECOND 1024
#define PROFD_CODE_BYTES_PER_SECOND (1u << 20)
#define PROFD_CODE_QUARTERS_OF_CPU 4
#define PROFD_CODE_QUARTERS_OF_USERS 3
#define PROFD_CODE_QUARTERS_OF_PROCESS 1

/* What was sent since a second began. */
struct profd_code_bucket {
	__u64 since_ns;
	__u32 records;
	__u32 bytes;
};

#define PROFD_CODE_BUCKETS 64

struct profd_code_budgets {
	struct profd_code_bucket cpu;
	struct profd_code_bucket users;				 /* all but root */
	struct profd_code_bucket of_process[PROFD_CODE_BUCKETS]; /* by hash */
};

PROFD_PER_CPU(profd_code_budgets);

static __always_inline bool profd_has_code_budget(struct profd_code_bucket *bucket, __u64 now,
						  __u32 quarters)
{
	if (now - bucket->since_ns >= PROFD_NS_PER_SECOND) {
		bucket->since_ns = now;
		bucket->records = 0;
		bucket->bytes = 0;
	}
	return bucket->records < PROFD_CODES_PER_SECOND / 4 * quarters &&
	       bucket->bytes < PROFD_CODE_BYTES_PER_SECOND / 4 * quarters;
}

static __always_inline void profd_use_code_budget(struct profd_code_bucket *bucket, __u32 bytes)
{
	bucket->records++;
	bucket->bytes += bytes;
}

static __always_inline struct profd_code_bucket *
profd_code_bucket_of(struct profd_code_budgets *budgets, const struct profd_interpreter *at)
{
	return &budgets->of_process[at->process_hash % PROFD_CODE_BUCKETS];
}

/* Whether one more code object may be sent. */
static __always_inline bool profd_may_send_code(struct profd_code_budgets *budgets,
						const struct profd_interpreter *at, __u64 now,
						__u32 uid)
{
	if (at->codes_tried >= PROFD_MAX_CODES_OF_TICK ||
	    at->code_bytes >= PROFD_MAX_CODE_BYTES_OF_TICK ||
	    at->failed_reads >= PROFD_MAX_FAILED_READS)
		return false;
	/* Each tick sends one, however long that takes: else a slow machine would send none. */
	if (at->codes_tried && profd_clock_ns() >= at->codes_end_ns)
		return false;
	if (uid && !profd_has_code_budget(&budgets->users, now, PROFD_CODE_QUARTERS_OF_USERS))
		return false;
	return profd_has_code_budget(&budgets->cpu, now, PROFD_CODE_QUARTERS_OF_CPU) &&
	       profd_has_code_budget(profd_code_bucket_of(budgets, at), now,
				     PROFD_CODE_QUARTERS_OF_PROCESS);
}

/* Fills in the record, but for its header. False: its name or its file can't be read now. */
static __always_inline bool profd_describe_code(struct profd_interpreter *at,
						const struct profd_sample *sample, __u64 place)
{
	struct profd_interpreted_code *announced = &at->announced;

	barrier_var(place);
	if (place >= PROFD_MAX_NEW_CODES)
		return false; /* never true; a bound for the verifier */
	__u64 code = at->new_codes[place].code;

	announced->id = at->new_codes[place].id;
	announced->time_ns = sample->time_ns;
	announced->process = sample->process;
	announced->kind = at->runtime.kind;
	announced->layout = at->runtime.layout;
	announced->cut = 0;
	announced->reserved = 0;
	__builtin_memset(announced->text_bytes, 0, sizeof(announced->text_bytes));
	__builtin_memset(announced->text_kind, 0, sizeof(announced->text_kind));
	at->text_used = 0;
	at->reads = 0;
	at->left_ns = ~0ULL;
	at->codes_tried++;
	return at->runtime.kind == PROFD_RUNTIME_PHP ? profd_php_describe(at, code)
						     : profd_python_describe(at, code);
}

/* Sends the record that was filled in. Returns its size, 0: there is no room. */
static __always_inline __u32 profd_output_code(struct profd_interpreter *at, void *ring)
{
	__u64 bytes = at->text_used;

	barrier_var(bytes);
	if (bytes > PROFD_MAX_CODE_TEXT_BYTES)
		return 0; /* never true; a bound for the verifier */
	bytes += sizeof(at->announced);
	at->announced.header.type = PROFD_RECORD_INTERPRETED_CODE;
	at->announced.header.size = bytes;
	if (bpf_ringbuf_output(ring, &at->announced, bytes, profd_wake_when_half_full(ring)))
		return 0;
	return bytes;
}

enum profd_code_result {
	PROFD_CODE_SENT = 0,
	PROFD_CODE_FAILED = 1, /* it could not be read, or there was no room for it */
	PROFD_CODE_OVER = 2,   /* nor is there budget or room for others */
};

/* Sends one of the stack's new code objects. Returns a profd_code_result. Global, so that it is
 * verified once. */
__noinline int profd_send_code(__u32 place)
{
	struct profd_interpreter *at = profd_interpreter_here();
	struct profd_scratch *scratch = profd_scratch_here();
	struct profd_counters *counters = profd_counters_here();
	struct profd_code_budgets *budgets = profd_code_budgets_here();
	struct profd_code_tags *tags = profd_code_tags_now();
	void *ring = profd_ring_here();

	if (!profd_with_interpreters || !at || !scratch || !counters || !budgets || !tags || !ring)
		return PROFD_CODE_OVER;
	struct profd_sample *sample = &scratch->sample;
	__u32 uid = profd_uid_of_current();

	if (!profd_may_send_code(budgets, at, sample->time_ns, uid)) {
		profd_count_interpreted(counters, PROFD_INTERPRETED_CODES_RATE, 1);
		return PROFD_CODE_OVER;
	}
	if ((PROFD_INTERPRETED_OF_BLOCK && profd_is_for_ticks(ring)) ||
	    (uid && profd_is_half_full(ring))) {
		profd_count_interpreted(counters, PROFD_INTERPRETED_CODES_NO_ROOM, 1);
		return PROFD_CODE_OVER;
	}
	if (!profd_describe_code(at, sample, place)) {
		profd_count_interpreted(counters, PROFD_INTERPRETED_NAME_ABSENT, 1);
		return PROFD_CODE_FAILED;
	}
	__u32 bytes = profd_output_code(at, ring);

	if (!bytes) {
		profd_count_interpreted(counters, PROFD_INTERPRETED_CODES_NO_ROOM, 1);
		return PROFD_CODE_FAILED;
	}
	profd_set_announced(tags, at->announced.id);
	at->code_bytes += bytes;
	profd_use_code_budget(&budgets->cpu, bytes);
	profd_use_code_budget(profd_code_bucket_of(budgets, at), bytes);
	if (uid)
		profd_use_code_budget(&budgets->users, bytes);
	profd_count_interpreted(counters, PROFD_INTERPRETED_CODES_SENT, 1);
	profd_count_interpreted(counters, PROFD_INTERPRETED_NAME_CUT, !!at->announced.cut);
	return PROFD_CODE_SENT;
}

static long profd_announce_code(__u32 index, struct profd_chain_context *context)
{
	struct profd_interpreter *at = context->at;
	__u64 place = index;

	barrier_var(place);
	if (place >= PROFD_MAX_NEW_CODES)
		return 1;
	/* It may be in the stack twice. */
	if (profd_was_announced(at->new_codes[place].id))
		return 0;
	return profd_send_code(index) == PROFD_CODE_OVER;
}

/* Announces what the stack has that was not announced. */
static __always_inline void profd_announce_codes(struct profd_interpreter *at,
						 struct profd_counters *counters)
{
	struct profd_chain_context context = {.at = at};

	if (!at->unannounced)
		return;
	at->codes_end_ns = profd_clock_ns() + at->codes_ns;
	bpf_loop(at->unannounced, profd_announce_code, &context, 0);
	if (at->unannounced > PROFD_MAX_NEW_CODES)
		profd_count_interpreted(counters, PROFD_INTERPRETED_CODES_RATE, 1);
}

#endif
