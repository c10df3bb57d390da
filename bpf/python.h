/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The frames of CPython, from the thread state on, and what is announced of a code object: see
 * interpreter_state.h for what these functions are to the bones, and python_abi.h for the layouts.
 *
 * The memory may change at any point of a read of it, and a process may have put anything there.
 * The thread's own number in its state proves the state, and the type of a code object the frame.
 */
#ifndef PROFD_PYTHON_H
#define PROFD_PYTHON_H

#include "bpf/interpreter_state.h"

/* From 3.15 on, a frame in the thread state itself ends the chain. It lies in the first bytes. */
#define PROFD_PYTHON_STATE_BYTES 4096
/* No code object has more units of bytecode: positions in samples have as many bits. */
#define PROFD_PYTHON_MAX_UNITS (1ULL << 24)

static __always_inline const struct profd_python_layout *
profd_python_of(const struct profd_interpreter *at)
{
	return (const struct profd_python_layout *)(const void *)at->layout.words;
}

/* Whether the loop has linked its cframe, but not yet its frame. */
static __always_inline bool profd_python_is_in_prologue(const struct profd_interpreter *at,
							const struct profd_python_layout *layout)
{
	__u64 bytes = at->runtime.prologue;

	if (!bytes)
		bytes = PROFD_PYTHON_PROLOGUE_BYTES;
	return layout->has_prologue && at->is_leaf &&
	       at->leaf_ip - at->runtime.loop[0].start < bytes &&
	       at->cframe - at->leaf_sp < at->leaf_cfa - at->leaf_sp;
}

/* To the leaf frame by the thread's cframe. In the prologue the one before counts, and the loop
 * that begins is a segment without frames. The pointer to the one before may not be set either, as
 * GCC stores it with the frame: what an earlier call has left there is in doubt until the native
 * frame of the segment's loop has it. */
static __always_inline __u32 profd_python_begin_by_cframe(struct profd_interpreter *at,
							  const struct profd_python_layout *layout)
{
	if (at->cframe && profd_python_is_in_prologue(at, layout)) {
		(void)profd_add_boundary(at, at->cframe);
		if (!profd_chain_read(at, &at->cframe, sizeof(at->cframe),
				      at->cframe + layout->cframe_previous))
			return PROFD_BEGIN_UNREADABLE;
		at->doubtful = at->cframe;
	}
	if (!at->cframe)
		return PROFD_BEGIN_DONE;
	return profd_chain_read(at, &at->frame, sizeof(at->frame),
				at->cframe + layout->cframe_frame)
		       ? PROFD_BEGIN_DONE
		       : PROFD_BEGIN_UNREADABLE;
}

static __always_inline __u32 profd_python_begin(struct profd_interpreter *at)
{
	const struct profd_python_layout *layout = profd_python_of(at);
	__u64 thread_id = 0;

	if (!profd_chain_read(at, &thread_id, sizeof(thread_id),
			      at->thread + layout->tstate_thread_id))
		return PROFD_BEGIN_UNREADABLE;
	if (thread_id != at->fsbase)
		return PROFD_BEGIN_MISMATCH;
	if (layout->tstate_cframe && !profd_chain_read(at, &at->cframe, sizeof(at->cframe),
						       at->thread + layout->tstate_cframe))
		return PROFD_BEGIN_UNREADABLE;
	if (!layout->tstate_frame)
		return profd_python_begin_by_cframe(at, layout);
	return profd_chain_read(at, &at->frame, sizeof(at->frame),
				at->thread + layout->tstate_frame)
		       ? PROFD_BEGIN_DONE
		       : PROFD_BEGIN_UNREADABLE;
}

static __always_inline bool profd_python_is_boundary(const struct profd_interpreter *at,
						     const struct profd_python_layout *layout)
{
	__u32 mark = profd_frame_byte(at, layout->frame_boundary);

	return mark == layout->boundary_value ||
	       (layout->boundary_or_more && mark > layout->boundary_value);
}

/* Adds what sets a code object without a version apart from a later one at its address. The name,
 * the file and the lines of that one may have the same addresses too, though they are others: one
 * function of 440 that were made and freed in a row had an earlier one's. With three objects more,
 * none of 24,000 had. */
static __always_inline __u64 profd_python_hash_parts(const struct profd_interpreter *at,
						     const struct profd_python_layout *layout,
						     __u64 hash)
{
	if (!layout->code_parts)
		return hash;
	for (__u32 i = 0; i < PROFD_PYTHON_CODE_PARTS; i++)
		hash = profd_hash_word(hash, profd_code_word(at, layout->code_parts + 8 * i));
	return hash;
}

/* The id of the code object that was read last. */
static __always_inline __u64 profd_python_hash(const struct profd_interpreter *at,
					       const struct profd_python_layout *layout, __u64 code,
					       __u64 units)
{
	__u64 line = profd_code_half(at, layout->code_first_line);
	__u64 bytecode = layout->code_bytecode ? profd_code_word(at, layout->code_bytecode) : 0;
	__u64 version = layout->code_version ? profd_code_half(at, layout->code_version) : 0;
	__u64 hash = profd_hash_word(at->process_hash, code);

	hash = profd_hash_word(hash, line << 32 | units);
	hash = profd_hash_word(hash, bytecode);
	hash = profd_hash_word(hash, profd_code_word(at, layout->code_name));
	hash = profd_hash_word(hash, profd_code_word(at, layout->code_file));
	hash = profd_hash_word(hash, profd_code_word(at, layout->code_lines));
	hash = profd_python_hash_parts(at, layout, hash);
	return profd_hash_end(profd_hash_word(hash, version));
}

/* Reads a code object. False: it can't be read, or is none. */
static __always_inline bool profd_python_read_code(struct profd_interpreter *at,
						   const struct profd_python_layout *layout,
						   __u64 code)
{
	if (!profd_chain_read(at, at->code, PROFD_PYTHON_CODE_BYTES, code)) {
		profd_end_unread(at);
		return false;
	}
	if (profd_code_word(at, layout->object_type) == at->bias + at->runtime.code_type)
		return true;
	at->end = PROFD_CHAIN_NOT_CODE;
	return false;
}

/* Whether the code object that was read last is that of the frame which, since 3.13, a specialised
 * call of a class has between __init__ and the caller (_Py_InitCleanup in Python/specialize.c). It
 * is a constant without a line, and one str is its name, its qualified name and its file. */
static __always_inline bool profd_python_is_hidden(const struct profd_interpreter *at,
						   const struct profd_python_layout *layout)
{
	__u64 name = profd_code_word(at, layout->code_name);

	return layout->anchor == PROFD_PYTHON_SHIM &&
	       !profd_code_half(at, layout->code_first_line) &&
	       name == profd_code_word(at, layout->code_file) &&
	       name == profd_code_word(at, layout->code_qualname);
}

/* What a frame executes. */
struct profd_python_code {
	__u64 id;    /* 0: a frame that is not shown */
	__u64 units; /* of bytecode; 0: unknown */
};

/* False: the chain ends, as it can't be read, or is none. */
static __always_inline bool profd_python_find_code(struct profd_interpreter *at,
						   const struct profd_python_layout *layout,
						   __u64 address, struct profd_python_code *code)
{
	struct profd_code_memo *memo = profd_memo_of(at, address);

	if (!address) {
		at->end = PROFD_CHAIN_NOT_CODE;
		return false;
	}
	if (memo->code == address) {
		code->id = memo->id;
		code->units = memo->units;
		return true;
	}
	if (!profd_python_read_code(at, layout, address))
		return false;
	code->units = layout->code_units ? profd_code_word(at, layout->code_units) : 0;
	if (code->units > PROFD_PYTHON_MAX_UNITS) {
		at->end = PROFD_CHAIN_NOT_CODE;
		return false;
	}
	code->id = 0;
	if (!profd_python_is_hidden(at, layout))
		code->id = profd_python_hash(at, layout, address, code->units);
	memo->code = address;
	memo->id = code->id;
	memo->units = (__u32)code->units;
	if (code->id)
		profd_note_code(at, address, code->id);
	return true;
}

/* The index of the code unit that a frame executes. False: its code has no such unit. */
static __always_inline bool profd_python_find_position(const struct profd_interpreter *at,
						       const struct profd_python_layout *layout,
						       __u64 code, __u64 units, __u32 *position)
{
	__s64 index;

	if (layout->position == PROFD_PYTHON_POINTER) {
		index = (__s64)(profd_frame_word(at, layout->frame_position) - code -
				layout->code_text) >>
			1;
	} else {
		index = (__s32)profd_frame_half(at, layout->frame_position);
		if (layout->position == PROFD_PYTHON_LASTI_BYTES)
			index >>= 1;
	}
	/* -1: its first instruction has not begun. */
	if (index < -1 || index > (__s64)(units ? units : PROFD_PYTHON_MAX_UNITS))
		return false;
	*position = index < 0 ? PROFD_NO_POSITION : (__u32)index;
	return true;
}

/* Ends the segment whose entry frame was added, by the current cframe, and goes to the one before.
 * `is_last`: the frame has no caller. */
static __always_inline long profd_python_end_by_cframe(struct profd_interpreter *at,
						       const struct profd_python_layout *layout,
						       bool is_last)
{
	/* The frames behind have no segment then. */
	if (!at->cframe)
		return 0;
	if (!profd_add_boundary(at, at->cframe))
		return 1;
	if (is_last)
		return 0;
	if (profd_read_stack(at, at->cframe + layout->cframe_previous, &at->cframe))
		return 0;
	profd_end_unread(at);
	return 1;
}

static __always_inline long profd_python_end_segment(struct profd_interpreter *at,
						     const struct profd_python_layout *layout,
						     bool is_boundary)
{
	if (layout->anchor == PROFD_PYTHON_NO_ANCHOR)
		return !profd_add_boundary(at, 0);
	if (layout->anchor == PROFD_PYTHON_EACH_CFRAME || is_boundary)
		return profd_python_end_by_cframe(at, layout, !at->frame);
	return 0;
}

/* A frame of the loop's own, on the native stack: its address is the anchor of its segment. */
static __always_inline long profd_python_pass_shim(struct profd_interpreter *at, __u64 shim)
{
	if (!at->frame && shim - at->thread < PROFD_PYTHON_STATE_BYTES) {
		at->end = PROFD_CHAIN_COMPLETE;
		return 1;
	}
	return !profd_add_boundary(at, shim);
}

static __always_inline long profd_python_step(struct profd_interpreter *at)
{
	const struct profd_python_layout *layout = profd_python_of(at);
	__u64 frame = at->frame, callee = at->last_read;
	struct profd_python_code code = {0, 0};
	__u32 position = 0;

	if (!frame) {
		at->end = PROFD_CHAIN_COMPLETE;
		return 1;
	}
	if (!profd_load_frame(at, frame, layout->frame_bytes, layout->frames_are_near))
		return 1;
	bool is_boundary =
		layout->anchor >= PROFD_PYTHON_ENTRY_CFRAME && profd_python_is_boundary(at, layout);

	at->frame = profd_frame_word(at, layout->frame_previous);
	if (is_boundary && layout->anchor == PROFD_PYTHON_SHIM) {
		at->last_read = callee; /* the frames around it lie close together */
		return profd_python_pass_shim(at, frame);
	}
	__u64 address = profd_frame_word(at, layout->frame_code) & ~(__u64)layout->pointer_tag_mask;

	if (!profd_python_find_code(at, layout, address, &code))
		return 1;
	if (!code.id)
		return 0;
	if (!profd_python_find_position(at, layout, address, code.units, &position)) {
		at->end = PROFD_CHAIN_NOT_CODE;
		return 1;
	}
	if (!profd_add_frame(at, code.id, position))
		return 1;
	return profd_python_end_segment(at, layout, is_boundary);
}

#define PROFD_PYTHON_STR_BYTES 24 /* length, hash and state */

/* A str. False: it can't be read, or is none that holds its own text. */
static __always_inline bool profd_python_add_str(struct profd_interpreter *at,
						 const struct profd_python_layout *layout,
						 __u32 which, __u64 address, __u64 limit)
{
	__u64 *start = &at->code[PROFD_TEXT_AT];
	__u32 state_at = (__u32)layout->str_state - layout->str_length;

	if (!address ||
	    !profd_chain_read(at, start, PROFD_PYTHON_STR_BYTES, address + layout->str_length))
		return false;
	__u64 state = at->code[PROFD_TEXT_AT + (state_at / 8 & 3)] >> (state_at & 4) * 8;
	__u64 kind = state >> PROFD_PYTHON_STR_KIND_SHIFT & PROFD_PYTHON_STR_KIND_MASK;

	if (!(state & PROFD_PYTHON_STR_COMPACT) ||
	    (kind != PROFD_TEXT_LATIN_1 && kind != PROFD_TEXT_UCS_2 && kind != PROFD_TEXT_UCS_4))
		return false;
	__u64 text = state & PROFD_PYTHON_STR_ASCII ? layout->str_ascii : layout->str_other;

	return profd_add_text(at, which, (__u8)kind, kind, address + text, start[0], limit);
}

/* The size of a bytes object. False: it can't be read. */
static __always_inline bool profd_python_bytes_size(struct profd_interpreter *at,
						    const struct profd_python_layout *layout,
						    __u64 address, __u64 *size)
{
	__u64 *start = &at->code[PROFD_TEXT_AT];

	if (!address || !profd_chain_read(at, start, sizeof(*start), address + layout->bytes_size))
		return false;
	*size = *start;
	return true;
}

static __always_inline __u32 profd_python_count_units(struct profd_interpreter *at,
						      const struct profd_python_layout *layout)
{
	__u64 bytes = 0;

	if (layout->code_units)
		return (__u32)profd_code_word(at, layout->code_units);
	if (!profd_python_bytes_size(at, layout, profd_code_word(at, layout->code_bytecode),
				     &bytes))
		return 0;
	return (__u32)(bytes / 2);
}

static __always_inline bool profd_python_describe(struct profd_interpreter *at, __u64 code)
{
	const struct profd_python_layout *layout = profd_python_of(at);
	struct profd_interpreted_code *announced = &at->announced;
	__u64 size = 0;

	if (!profd_chain_read(at, at->code, PROFD_PYTHON_CODE_BYTES, code))
		return false;
	announced->address = code;
	announced->first_line = profd_code_half(at, layout->code_first_line);
	announced->units = profd_python_count_units(at, layout);
	if (!profd_python_add_str(at, layout, PROFD_CODE_NAME,
				  profd_code_word(at, layout->code_name),
				  PROFD_MAX_CODE_NAME_BYTES))
		return false;
	if (layout->code_qualname &&
	    !profd_python_add_str(at, layout, PROFD_CODE_QUALIFIER,
				  profd_code_word(at, layout->code_qualname),
				  PROFD_MAX_CODE_NAME_BYTES))
		return false;
	if (!profd_python_add_str(at, layout, PROFD_CODE_FILE,
				  profd_code_word(at, layout->code_file),
				  PROFD_MAX_CODE_FILE_BYTES))
		return false;
	/* A code object without lines still has its name. */
	__u64 lines = profd_code_word(at, layout->code_lines);

	if (profd_python_bytes_size(at, layout, lines, &size))
		(void)profd_add_text(at, PROFD_CODE_LINES, PROFD_TEXT_BYTES, 1,
				     lines + layout->bytes_data, size, PROFD_MAX_CODE_LINES_BYTES);
	return true;
}

#endif
