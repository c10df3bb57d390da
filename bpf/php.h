/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The frames of PHP, from executor_globals.current_execute_data on, and what is announced of a
 * function: see interpreter_state.h for what these functions are to the bones, and php_abi.h for
 * the layouts.
 *
 * Memory of one request belongs to other functions in the next, and each closure has a copy of its
 * function: so the id of a function is not made of addresses but of what is announced of it, its
 * texts by their hashes, which PHP keeps beside them.
 *
 * The type of a function and those of its strings prove a frame, as nothing proves the state. The
 * line of the leaf frame is that of its last instruction that calls or may throw: the current one
 * is in a register.
 */
#ifndef PROFD_PHP_H
#define PROFD_PHP_H

#include "bpf/interpreter_state.h"
#include "bpf/php_abi.h"

/* The first words of a zend_string: its count of references and its type, its hash (0: none yet)
 * and, at string_length, its length. */
#define PROFD_PHP_STRING_HEAD_BYTES 24
#define PROFD_PHP_TYPE_SHIFT 32
#define PROFD_PHP_TYPE_MASK 15
#define PROFD_PHP_STRING_TYPE 6 /* IS_STRING */

/* Type, name and scope of every function: those of C are shorter than those of PHP. */
#define PROFD_PHP_FUNCTION_HEAD_BYTES 24

/* Positions in samples have 24 bits, of which the last value is none. */
#define PROFD_PHP_MAX_LINE ((1u << 24) - 2)

static __always_inline const struct profd_php_layout *
profd_php_of(const struct profd_interpreter *at)
{
	return (const struct profd_php_layout *)(const void *)at->layout.words;
}

static __always_inline __u32 profd_php_begin(struct profd_interpreter *at)
{
	/* The others have nothing to do with it, though they can read it too. */
	if (!at->is_first_thread)
		return PROFD_BEGIN_NO_THREAD_STATE;
	at->frame = at->thread;
	return PROFD_BEGIN_DONE;
}

/* Of the function that was read last. */
static __always_inline __u32 profd_php_type(const struct profd_interpreter *at,
					    const struct profd_php_layout *layout)
{
	return (__u32)(profd_code_word(at, layout->function_type) >>
		       (layout->function_type & 7) * 8) &
	       0xff;
}

static __always_inline bool profd_php_is_of_php(__u32 type)
{
	return type == PROFD_PHP_USER_FUNCTION || type == PROFD_PHP_EVAL_CODE;
}

/* Reads a function. False: it can't be read, or is none. */
static __always_inline bool profd_php_read_function(struct profd_interpreter *at,
						    const struct profd_php_layout *layout,
						    __u64 function)
{
	/* One of C may end where its memory does. */
	if (!profd_chain_read(at, at->code, layout->function_bytes & 255u, function) &&
	    !profd_chain_read(at, at->code, PROFD_PHP_FUNCTION_HEAD_BYTES, function)) {
		profd_end_unread(at);
		return false;
	}
	__u32 type = profd_php_type(at, layout);

	if (type == PROFD_PHP_INTERNAL_FUNCTION ||
	    (profd_php_is_of_php(type) && profd_code_word(at, layout->function_file)))
		return true;
	at->end = PROFD_CHAIN_NOT_CODE;
	return false;
}

/* Reads the head of a string, behind the function. False: it can't be read, or is none. */
static __always_inline bool profd_php_read_string(struct profd_interpreter *at, __u64 string)
{
	if (!profd_chain_read(at, &at->code[PROFD_TEXT_AT], PROFD_PHP_STRING_HEAD_BYTES, string)) {
		profd_end_unread(at);
		return false;
	}
	if ((at->code[PROFD_TEXT_AT] >> PROFD_PHP_TYPE_SHIFT & PROFD_PHP_TYPE_MASK) ==
	    PROFD_PHP_STRING_TYPE)
		return true;
	at->end = PROFD_CHAIN_NOT_CODE;
	return false;
}

/* Of the string that was read last. */
static __always_inline __u64 profd_php_length(const struct profd_interpreter *at,
					      const struct profd_php_layout *layout)
{
	return at->code[PROFD_TEXT_AT + (layout->string_length / 8 & 3)];
}

/* Adds a text to a hash: its own hash, or where PHP has none yet its address, and its length. A
 * string at 0 is none. False: it can't be read, or is none. */
static __always_inline bool profd_php_hash_string(struct profd_interpreter *at,
						  const struct profd_php_layout *layout,
						  __u64 string, __u64 *hash)
{
	__u64 own = 0, length = 0;

	if (string) {
		if (!profd_php_read_string(at, string))
			return false;
		own = at->code[PROFD_TEXT_AT + 1];
		if (!own)
			own = string;
		length = profd_php_length(at, layout);
	}
	*hash = profd_hash_word(profd_hash_word(*hash, own), length);
	return true;
}

/* The name of the class of the function that was read last; 0: it has none. False: it can't be
 * read. */
static __always_inline bool profd_php_find_class(struct profd_interpreter *at,
						 const struct profd_php_layout *layout, __u64 *name)
{
	__u64 scope = profd_code_word(at, layout->function_scope);

	*name = 0;
	if (!scope || profd_chain_read(at, name, sizeof(*name), scope + layout->class_name))
		return true;
	profd_end_unread(at);
	return false;
}

static __always_inline __u64 profd_php_file(const struct profd_interpreter *at,
					    const struct profd_php_layout *layout, __u32 type)
{
	return profd_php_is_of_php(type) ? profd_code_word(at, layout->function_file) : 0;
}

static __always_inline __u32 profd_php_first_line(const struct profd_interpreter *at,
						  const struct profd_php_layout *layout, __u32 type)
{
	return profd_php_is_of_php(type) ? profd_code_half(at, layout->function_first_line) : 0;
}

/* The id of the function that was read last. Returns 0 where the chain ends. */
static __always_inline __u64 profd_php_id(struct profd_interpreter *at,
					  const struct profd_php_layout *layout, __u32 type)
{
	__u64 of_class = 0;
	__u64 hash = profd_hash_word(at->process_hash,
				     (__u64)type << 32 | profd_php_first_line(at, layout, type));

	if (!profd_php_hash_string(at, layout, profd_code_word(at, layout->function_name), &hash) ||
	    !profd_php_hash_string(at, layout, profd_php_file(at, layout, type), &hash) ||
	    !profd_php_find_class(at, layout, &of_class) ||
	    !profd_php_hash_string(at, layout, of_class, &hash))
		return 0;
	return profd_hash_end(hash);
}

/* What a frame executes. */
struct profd_php_function {
	__u64 id;   /* 0: the first one of a fiber */
	__u32 type; /* as zend_function.type */
};

/* False: the chain ends, as it can't be read, or is none. */
static __always_inline bool profd_php_find_function(struct profd_interpreter *at,
						    const struct profd_php_layout *layout,
						    __u64 address,
						    struct profd_php_function *function)
{
	struct profd_code_memo *memo = profd_memo_of(at, address);

	if (memo->code == address) {
		function->id = memo->id;
		function->type = memo->units;
		return true;
	}
	if (!profd_php_read_function(at, layout, address))
		return false;
	function->type = profd_php_type(at, layout);
	function->id = 0;
	if (profd_php_is_of_php(function->type) || profd_code_word(at, layout->function_name)) {
		function->id = profd_php_id(at, layout, function->type);
		if (!function->id)
			return false;
		profd_note_code(at, address, function->id);
	}
	memo->code = address;
	memo->id = function->id;
	memo->units = function->type;
	return true;
}

/* The line of an instruction; PROFD_NO_POSITION: it has none, or can't be read, which does not end
 * the chain. */
static __always_inline __u32 profd_php_line(struct profd_interpreter *at,
					    const struct profd_php_layout *layout, __u64 opline)
{
	__u32 line = 0;

	if (!opline || !profd_chain_read(at, &line, sizeof(line), opline + layout->opline_line))
		return PROFD_NO_POSITION;
	return line && line <= PROFD_PHP_MAX_LINE ? line : PROFD_NO_POSITION;
}

static __always_inline long profd_php_step(struct profd_interpreter *at)
{
	const struct profd_php_layout *layout = profd_php_of(at);
	struct profd_php_function function = {0, 0};
	__u64 frame = at->frame;
	__u32 position = PROFD_NO_POSITION;

	if (!frame) {
		at->end = PROFD_CHAIN_COMPLETE;
		return 1;
	}
	if (!profd_load_frame(at, frame, layout->frame_bytes, true))
		return 1;
	__u64 address = profd_frame_word(at, layout->frame_function);
	__u64 opline = profd_frame_word(at, layout->frame_opline);
	__u32 type_info = profd_frame_half(at, layout->frame_type_info);

	at->frame = profd_frame_word(at, layout->frame_previous);
	/* What stands between others where generators delegate or C calls, and executes nothing. */
	if (!address)
		return 0;
	if (!profd_php_find_function(at, layout, address, &function))
		return 1;
	/* The frames behind it are not on this native stack. */
	if (!function.id) {
		at->end = PROFD_CHAIN_COMPLETE;
		return 1;
	}
	if (profd_php_is_of_php(function.type))
		position = profd_php_line(at, layout, opline);
	if (!profd_add_frame(at, function.id, position))
		return 1;
	/* Functions of C have no activation of the loop, however they were called. */
	if (!profd_php_is_of_php(function.type) || !(type_info & layout->top_call_mask))
		return 0;
	return !profd_add_boundary(at, 0);
}

/* A string at 0 adds nothing. False: it can't be read, or is none. */
static __always_inline bool profd_php_add_string(struct profd_interpreter *at,
						 const struct profd_php_layout *layout, __u32 which,
						 __u64 string, __u64 limit)
{
	if (!string)
		return true;
	return profd_php_read_string(at, string) &&
	       profd_add_text(at, which, PROFD_TEXT_BYTES, 1, string + layout->string_text,
			      profd_php_length(at, layout), limit);
}

/* Code outside of functions has no name, a function of C no file. */
static __always_inline bool profd_php_fill_in(struct profd_interpreter *at, __u64 code)
{
	const struct profd_php_layout *layout = profd_php_of(at);
	struct profd_interpreted_code *announced = &at->announced;
	__u64 of_class = 0;

	if (!profd_php_read_function(at, layout, code) ||
	    !profd_php_find_class(at, layout, &of_class))
		return false;
	__u32 type = profd_php_type(at, layout);

	announced->address = code;
	announced->first_line = profd_php_first_line(at, layout, type);
	announced->units = 0;
	return profd_php_add_string(at, layout, PROFD_CODE_NAME,
				    profd_code_word(at, layout->function_name),
				    PROFD_MAX_CODE_NAME_BYTES) &&
	       profd_php_add_string(at, layout, PROFD_CODE_QUALIFIER, of_class,
				    PROFD_MAX_CODE_NAME_BYTES) &&
	       profd_php_add_string(at, layout, PROFD_CODE_FILE, profd_php_file(at, layout, type),
				    PROFD_MAX_CODE_FILE_BYTES);
}

/* The chain has ended as it has, whatever can't be read now. */
static __always_inline bool profd_php_describe(struct profd_interpreter *at, __u64 code)
{
	__u32 end = at->end;
	bool is_described = profd_php_fill_in(at, code);

	at->end = end;
	return is_described;
}

#endif
