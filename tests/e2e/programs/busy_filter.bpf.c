// A BPF program that takes some microseconds each time.

#define SEC(name) __attribute__((section(name), used))

SEC("socket")
int busy_filter(void* context) {
  unsigned int value = *(unsigned int*)context;

#pragma clang loop unroll(disable)
  for (int i = 0; i < 2000; ++i) value = (value ^ (value >> 13)) * 2654435761U;
  return value;
}

char profd_license[] SEC("license") = "GPL";
