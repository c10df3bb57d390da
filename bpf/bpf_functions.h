/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The code of all BPF programs that are loaded now, with its size, which /proc/kallsyms lacks.
 */
#ifndef PROFD_BPF_FUNCTIONS_H
#define PROFD_BPF_FUNCTIONS_H

#include "bpf/kernel_types.h"
#include "bpf/profd_abi.h"

struct profd_function_listing {
	struct bpf_prog **functions;
	struct seq_file *out;
};

static __always_inline void profd_write_bpf_function(struct seq_file *out, struct bpf_prog *code)
{
	struct profd_bpf_function function = {};
	struct bpf_prog_aux *aux = BPF_CORE_READ(code, aux);

	function.start = (__u64)BPF_CORE_READ(code, bpf_func);
	function.end = function.start + BPF_CORE_READ(code, jited_len);
	bpf_probe_read_kernel_str(function.name, sizeof(function.name),
				  (void *)aux +
					  bpf_core_field_offset(struct bpf_prog_aux, ksym.name));
	if (function.end != function.start)
		bpf_seq_write(out, &function, sizeof(function));
}

static long profd_list_function(__u32 index, struct profd_function_listing *listing)
{
	struct bpf_prog *code;

	if (bpf_probe_read_kernel(&code, sizeof(code), listing->functions + index))
		return 1;
	profd_write_bpf_function(listing->out, code);
	return 0;
}

/* Writes a struct profd_bpf_function for each function of each program; the first one of a program
 * that has several may come twice. */
SEC("iter/bpf_prog")
int profd_bpf_functions(struct bpf_iter__bpf_prog *ctx)
{
	struct bpf_prog *program = ctx->prog;

	if (!program)
		return 0;
	struct bpf_prog_aux *aux = BPF_CORE_READ(program, aux);
	struct profd_function_listing listing = {
		.functions = BPF_CORE_READ(aux, func),
		.out = ctx->meta->seq,
	};
	__u32 count = BPF_CORE_READ(aux, func_cnt);

	profd_write_bpf_function(listing.out, program);
	if (count > PROFD_MAX_FUNCTIONS_OF_PROGRAM)
		count = PROFD_MAX_FUNCTIONS_OF_PROGRAM;
	bpf_loop(count, profd_list_function, &listing, 0);
	return 0;
}

#endif
