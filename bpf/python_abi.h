/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * CPython's memory: the layout of one minor version, as a struct profd_layout has it. User space
 * fills it in by formats/python/layouts.cc; python.h reads it.
 *
 * Offsets in bytes, of CPython's headers (Include/cpython/{pystate,frameobject,code}.h,
 * Include/internal/pycore_frame.h, Objects/unicodeobject.c). 0 where a version has no such field:
 * at offset 0 stands no field that is optional.
 */
#ifndef PROFD_PYTHON_ABI_H
#define PROFD_PYTHON_ABI_H

#include "bpf/interpreter_abi.h"

/* Where the anchors of segments are. */
enum profd_python_anchor {
	PROFD_PYTHON_NO_ANCHOR = 0,   /* 3.8, 3.9: each frame is a segment without an anchor */
	PROFD_PYTHON_EACH_CFRAME = 1, /* 3.10: each frame is a segment, its anchor a _PyCFrame */
	PROFD_PYTHON_ENTRY_CFRAME =
		2,	       /* 3.11: a frame with is_entry ends a segment: its _PyCFrame */
	PROFD_PYTHON_SHIM = 3, /* 3.12+: a frame on the native stack: its own address */
};

/* What a frame's position field is. */
enum profd_python_position {
	PROFD_PYTHON_LASTI_BYTES = 0, /* a signed 32-bit byte offset */
	PROFD_PYTHON_LASTI_UNITS = 1, /* a signed 32-bit number of 2-byte units */
	PROFD_PYTHON_POINTER = 2, /* a pointer into the bytecode, which lies in the code object */
};

struct profd_python_layout {
	__u16 tstate_frame;	/* the leaf frame; 0: by the cframe */
	__u16 tstate_cframe;	/* 0: there is none */
	__u16 tstate_thread_id; /* pthread_self() */
	__u16 cframe_frame; /* of _PyCFrame: current_frame; 3.10 has none and does not need it */
	__u16 cframe_previous;
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_position;
	__u16 frame_boundary; /* the byte that marks a boundary: is_entry, or owner */
	__u16 code_text;      /* size without bytecode: where the bytecode begins, since 3.11 */
	__u16 code_units; /* ob_size: units of bytecode; 0: by the bytes object in code_bytecode */
	__u16 code_bytecode; /* before 3.11: co_code */
	__u16 code_first_line;
	__u16 code_file;
	__u16 code_name;
	__u16 code_qualname; /* 0: none */
	__u16 code_lines;    /* a bytes object: co_lnotab, co_linetable */
	__u16 code_version;  /* a counter of code objects; 0: none */
	__u16 code_parts; /* without it: PROFD_PYTHON_CODE_PARTS pointers to objects of its own */
	__u16 object_type;
	__u16 str_length; /* code points */
	__u16 str_state;
	__u16 str_ascii; /* the text, if it is ASCII */
	__u16 str_other; /* else, of a compact one */
	__u16 bytes_size;
	__u16 bytes_data;
	/* How much of a frame holds all of the above, at most PROFD_PYTHON_MAX_FRAME_BYTES. No more
	 * is read: the last frame of a stack may end where its memory does. */
	__u16 frame_bytes;
	__u8 boundary_value;   /* a boundary has this value in its byte, */
	__u8 boundary_or_more; /* or with 1, also a higher one */
	__u8 pointer_tag_mask; /* to be cleared in frame_code; 3.14+: 3 */
	__u8 position;	       /* profd_python_position */
	__u8 anchor;	       /* profd_python_anchor */
	/* 1: frames of Python functions lie in one growing stack, a caller below its callee. */
	__u8 frames_are_near;
	/* 1: at the entry of the loop the cframe is linked before its frame is set (3.11, 3.12). In
	 * the profd_runtime.prologue of a file, or as many bytes as this if it is unknown, the
	 * cframe before is the one that counts. */
	__u8 has_prologue;
	__u8 reserved[3];
};

#define PROFD_PYTHON_PROLOGUE_BYTES 0x100
#define PROFD_PYTHON_CODE_PARTS 3

/* The `state` of a str: its kind is bytes per code point; the bits above are garbage. */
#define PROFD_PYTHON_STR_KIND_SHIFT 2
#define PROFD_PYTHON_STR_KIND_MASK 7
#define PROFD_PYTHON_STR_COMPACT (1u << 5)
#define PROFD_PYTHON_STR_ASCII (1u << 6)

/* What is read of a code object at once, from its start: all fields of every layout lie in it. */
#define PROFD_PYTHON_CODE_BYTES 144
#define PROFD_PYTHON_MAX_FRAME_BYTES 128

PROFD_ASSERT_SIZE(struct profd_python_layout, 64);

#endif
