/* Floods a profiler with names and stacks: deleted ELF files full of long random names, and chains
 * of calls through them that never repeat.
 *
 *   name_flood SECONDS [PROCESSES [DIRECTORY]]
 *
 * Each process has files of its own. Ends by itself.
 */

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 256, FUNCTIONS = 64, NAME = 1024, CHAIN = 1024, CODE_AT = 0x1000 };

/* push %rbp; mov %rsp,%rbp; mov (%rdi),%rax; add $8,%rdi; call *%rax; pop %rbp; ret */
static const unsigned char function_code[16] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x07, 0x48,
						0x83, 0xc7, 0x08, 0xff, 0xd0, 0x5d, 0xc3, 0xcc};

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[4]; /* none, .symtab, .strtab, .text */
	Elf64_Sym symbols[FUNCTIONS + 1];
	char strings[1 + FUNCTIONS * NAME];
};

typedef void (*function)(void *next);

static function functions[FILES * FUNCTIONS];

static void random_name(char *name)
{
	for (int i = 0; i < NAME - 1; i++)
		name[i] = (char)('!' + rand() % 90);
	name[NAME - 1] = 0;
}

static void fill(struct image *image)
{
	memset(image, 0, sizeof(*image));
	image->header = (Elf64_Ehdr){.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
						 ELFDATA2LSB, EV_CURRENT},
				     .e_type = ET_DYN,
				     .e_machine = EM_X86_64,
				     .e_version = EV_CURRENT,
				     .e_phoff = offsetof(struct image, segment),
				     .e_shoff = CODE_AT + sizeof(function_code) * FUNCTIONS +
						offsetof(struct image, sections),
				     .e_ehsize = sizeof(Elf64_Ehdr),
				     .e_phentsize = sizeof(Elf64_Phdr),
				     .e_phnum = 1,
				     .e_shentsize = sizeof(Elf64_Shdr),
				     .e_shnum = 4,
				     .e_shstrndx = 2};
	image->segment = (Elf64_Phdr){.p_type = PT_LOAD,
				      .p_flags = PF_R | PF_X,
				      .p_align = 0x1000,
				      .p_filesz = CODE_AT + sizeof(function_code) * FUNCTIONS,
				      .p_memsz = CODE_AT + sizeof(function_code) * FUNCTIONS};
	for (int i = 0; i < FUNCTIONS; i++) {
		image->symbols[i + 1] = (Elf64_Sym){
			.st_name = (unsigned)(1 + i * NAME),
			.st_shndx = 3,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_value = (unsigned)(CODE_AT + i * (int)sizeof(function_code)),
			.st_size = sizeof(function_code)};
		random_name(image->strings + 1 + i * NAME);
	}
}

/* The header and segment come first in the file, then the code, then all of the image. */
static void place_sections(struct image *image)
{
	const unsigned long at = CODE_AT + sizeof(function_code) * FUNCTIONS;

	image->sections[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
					  .sh_link = 2,
					  .sh_info = 1,
					  .sh_offset = at + offsetof(struct image, symbols),
					  .sh_size = sizeof(image->symbols),
					  .sh_entsize = sizeof(Elf64_Sym),
					  .sh_addralign = 8};
	image->sections[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
					  .sh_addralign = 1,
					  .sh_offset = at + offsetof(struct image, strings),
					  .sh_size = sizeof(image->strings)};
	image->sections[3] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
					  .sh_addralign = 16,
					  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					  .sh_addr = CODE_AT,
					  .sh_offset = CODE_AT,
					  .sh_size = sizeof(function_code) * FUNCTIONS};
}

static void write_all(int fd, const void *bytes, size_t size, off_t at)
{
	if (pwrite(fd, bytes, size, at) != (ssize_t)size) {
		perror("name_flood: write");
		exit(1);
	}
}

static void *map_deleted_file(const char *directory)
{
	static struct image image;
	unsigned char code[sizeof(function_code) * FUNCTIONS];
	char path[4096];

	snprintf(path, sizeof(path), "%s/flood.XXXXXX", directory);
	const int fd = mkstemp(path);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	fill(&image);
	place_sections(&image);
	for (int i = 0; i < FUNCTIONS; i++)
		memcpy(code + sizeof(function_code) * (size_t)i, function_code,
		       sizeof(function_code));
	write_all(fd, &image, offsetof(struct image, sections), 0);
	write_all(fd, code, sizeof(code), CODE_AT);
	write_all(fd, &image, sizeof(image), CODE_AT + sizeof(code));
	void *mapped =
		mmap(NULL, CODE_AT + sizeof(code), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED || unlink(path) != 0) {
		perror("name_flood: mmap");
		exit(1);
	}
	close(fd);
	return mapped;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void spin(void *unused)
{
	const double end = now() + 0.005;

	(void)unused;
	while (now() < end) {
	}
}

static void flood(double end, const char *directory)
{
	function chain[CHAIN];

	for (int file = 0; file < FILES; file++) {
		char *code = (char *)map_deleted_file(directory) + CODE_AT;
		for (int i = 0; i < FUNCTIONS; i++)
			functions[file * FUNCTIONS + i] =
				(function)(void *)(code + i * (int)sizeof(function_code));
	}
	while (now() < end) {
		for (int i = 0; i < CHAIN - 1; i++)
			chain[i] = functions[rand() % (FILES * FUNCTIONS)];
		chain[CHAIN - 1] = spin;
		chain[0](chain + 1);
	}
}

int main(int argc, char **argv)
{
	const double end = now() + (argc > 1 ? atof(argv[1]) : 1);
	const int processes = argc > 2 ? atoi(argv[2]) : 1;

	for (int i = 0; i < processes; i++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			srand((unsigned)getpid());
			flood(end, argc > 3 ? argv[3] : "/tmp");
			return 0;
		}
	}
	while (wait(NULL) > 0) {
	}
	return 0;
}
