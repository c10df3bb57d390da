/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The slot in which a thread has the address of its interpreter's state: a pthread key, or a
 * thread-local variable. Both lead from the thread's base, the register fs, of which the kernel has
 * a copy: libraries set it by arch_prctl() or clone() alone.
 */
#ifndef PROFD_THREAD_SLOTS_H
#define PROFD_THREAD_SLOTS_H

#include "bpf/runtimes.h"

/* glibc's struct pthread: 16 bytes a key, of which the value is the second half. */
#define PROFD_GLIBC_FIRST_KEYS 0x310
#define PROFD_GLIBC_KEY_BLOCKS 0x510 /* pointers to the blocks of further keys */
#define PROFD_GLIBC_BLOCK_KEYS 32
/* musl's: a pointer to an array of values. */
#define PROFD_MUSL_KEYS 0x80
#define PROFD_MUSL_OLD_KEYS 0x88
#define PROFD_MAX_KEYS 1024 /* glibc's; musl has 128 */

#define PROFD_DTV_AT 8
#define PROFD_NO_TLS_BLOCK (~0ULL) /* the thread has not used the module's variables yet */

static __always_inline __u64 profd_thread_base(void)
{
	return bpf_get_current_task_btf()->thread.fsbase;
}

/* The readers of slots return false for memory that is not there. A slot without a value leaves
 * *value alone. */
static __always_inline bool profd_read_word_at(struct profd_interpreter *at, __u64 address,
					       __u64 *value)
{
	return profd_chain_read(at, value, sizeof(*value), address);
}

static __always_inline bool profd_read_glibc_key(struct profd_interpreter *at, __u64 key,
						 __u64 *value)
{
	__u64 block = at->fsbase + PROFD_GLIBC_FIRST_KEYS;

	if (key >= PROFD_GLIBC_BLOCK_KEYS &&
	    !profd_read_word_at(
		    at, at->fsbase + PROFD_GLIBC_KEY_BLOCKS + 8 * (key / PROFD_GLIBC_BLOCK_KEYS),
		    &block))
		return false;
	return !block ||
	       profd_read_word_at(at, block + 16 * (key % PROFD_GLIBC_BLOCK_KEYS) + 8, value);
}

static __always_inline bool profd_read_musl_key(struct profd_interpreter *at, __u64 key,
						__u64 *value)
{
	__u64 keys = 0;

	if (!profd_read_word_at(at,
				at->fsbase + (at->runtime.libc == PROFD_LIBC_MUSL_OLD
						      ? PROFD_MUSL_OLD_KEYS
						      : PROFD_MUSL_KEYS),
				&keys))
		return false;
	return !keys || profd_read_word_at(at, keys + 8 * key, value);
}

static __always_inline bool profd_read_key(struct profd_interpreter *at, __u64 where, __u64 *value)
{
	__u32 key = 0;

	if (!profd_chain_read(at, &key, sizeof(key), where))
		return false;
	if (key >= PROFD_MAX_KEYS)
		return true;
	return at->runtime.libc == PROFD_LIBC_GLIBC ? profd_read_glibc_key(at, key, value)
						    : profd_read_musl_key(at, key, value);
}

static __always_inline bool profd_read_dynamic_tls(struct profd_interpreter *at, __u64 where,
						   __s64 add, __u64 *value)
{
	__u64 dtv = 0, module = 0, offset = 0, block = 0;
	__u64 entry_bytes = at->runtime.libc == PROFD_LIBC_GLIBC ? 16 : 8;

	if (!profd_read_word_at(at, at->fsbase + PROFD_DTV_AT, &dtv) ||
	    !profd_read_word_at(at, where, &module) ||
	    !profd_read_word_at(at, where + 8, &offset) ||
	    !profd_read_word_at(at, dtv + entry_bytes * module, &block))
		return false;
	return !block || block == PROFD_NO_TLS_BLOCK ||
	       profd_read_word_at(at, block + offset + add, value);
}

/* Reads one of the runtime's slots to at->thread. Returns 0 or a profd_begin. Global, so that the
 * forms are verified once. */
__noinline int profd_read_slot(__u32 which)
{
	struct profd_interpreter *at = profd_interpreter_here();
	__u64 value = 0;
	bool was_read = true;

	if (!profd_with_interpreters || !at)
		return PROFD_BEGIN_NO_THREAD_STATE;
	__u64 slot = which & (PROFD_SLOTS - 1);
	__u64 where = at->runtime.slot[slot];
	__s64 add = at->runtime.slot_add[slot];
	__u32 form = at->runtime.slot_form[slot];

	if (form == PROFD_SLOT_KEY)
		was_read = profd_read_key(at, at->bias + where, &value);
	else if (form == PROFD_SLOT_TLS)
		was_read = profd_read_word_at(at, at->fsbase + where, &value);
	else if (form == PROFD_SLOT_DYNAMIC_TLS)
		was_read = profd_read_dynamic_tls(at, at->bias + where, add, &value);
	else if (form == PROFD_SLOT_GLOBAL)
		was_read = profd_read_word_at(at, at->bias + where, &value);
	if (!was_read)
		return PROFD_BEGIN_UNREADABLE;
	at->thread = value;
	return value ? PROFD_BEGIN_DONE : PROFD_BEGIN_NO_THREAD_STATE;
}

/* The thread's state, to at->thread. Returns 0 or a profd_begin. */
static __always_inline __u32 profd_find_thread(void)
{
	int first = profd_read_slot(0);

	if (first == PROFD_BEGIN_DONE)
		return PROFD_BEGIN_DONE;
	int second = profd_read_slot(1);

	return second == PROFD_BEGIN_NO_THREAD_STATE ? first : second;
}

#endif
