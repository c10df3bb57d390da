/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * PHP's memory: the layout of one minor version, as a struct profd_layout has it. User space fills
 * it in by formats/php/layouts.cc; php.h reads it.
 *
 * Offsets in bytes, of builds without thread safety (NTS): Zend/zend_compile.h, zend_types.h and
 * zend.h. The slot of a struct profd_runtime is executor_globals.current_execute_data, a global
 * variable: the process's main thread alone runs PHP.
 */
#ifndef PROFD_PHP_ABI_H
#define PROFD_PHP_ABI_H

#include "bpf/interpreter_abi.h"

/* zend_function.type: what runs in a frame. */
#define PROFD_PHP_INTERNAL_FUNCTION 1 /* of C code: no file, no lines */
#define PROFD_PHP_USER_FUNCTION 2
#define PROFD_PHP_EVAL_CODE 4

struct profd_php_layout {
	/* zend_execute_data, a frame. */
	__u16 frame_opline; /* the instruction: valid in frames of PHP code */
	__u16 frame_function;
	__u16 frame_type_info; /* This.u1.type_info */
	__u16 frame_previous;
	__u16 frame_bytes; /* how much of a frame holds all of the above */
	/* zend_function, the code of a frame. */
	__u16 function_type;  /* a byte */
	__u16 function_name;  /* a zend_string; 0: the file's own code */
	__u16 function_scope; /* a zend_class_entry; 0: no class */
	__u16 function_file;
	__u16 function_first_line;
	__u16 function_bytes;
	__u16 class_name;
	__u16 string_length;
	__u16 string_text;
	__u16 opline_line;
	__u16 reserved;
	/* ZEND_CALL_TOP: the frame is the first one of an activation of the loop. */
	__u32 top_call_mask;
};

/* The largest function_bytes. */
#define PROFD_PHP_MAX_FUNCTION_BYTES 192

PROFD_ASSERT_SIZE(struct profd_php_layout, 36);

#endif
