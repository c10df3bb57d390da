# perf's JVM agent, which writes a jitdump: the target perf_jvmti builds ${PERF_JVMTI} from Debian's kernel sources
# (linux-source-6.1) and the JDK's headers, as tools/perf's own makefile does.
include_guard(GLOBAL)

file(GLOB jdk_includes /usr/lib/jvm/java-17-openjdk-*/include)
find_path(JVMTI_INCLUDE jvmticmlr.h HINTS ${jdk_includes} REQUIRED)
find_file(LINUX_SOURCE linux-source-6.1.tar.xz PATHS /usr/src REQUIRED NO_DEFAULT_PATH)
set(PERF_JVMTI ${PROJECT_BINARY_DIR}/perf-jvmti/libperf-jvmti.so CACHE INTERNAL "perf's JVM agent")

set(tools linux-source-6.1/tools)
set(directory ${PROJECT_BINARY_DIR}/perf-jvmti)
set(sources tools/perf/jvmti/jvmti_agent.c tools/perf/jvmti/libjvmti.c tools/lib/ctype.c tools/lib/string.c)
file(MAKE_DIRECTORY ${directory})
add_custom_command(
  OUTPUT ${PERF_JVMTI}
  COMMAND tar -xf ${LINUX_SOURCE} --strip-components=1 ${tools}/include ${tools}/perf/jvmti ${tools}/perf/util/jitdump.h
          ${tools}/lib/ctype.c ${tools}/lib/string.c
  COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -O2 -w -D_GNU_SOURCE -DHAVE_GETTID -DHAVE_JVMTI_CMLR -I tools/include
          -I ${JVMTI_INCLUDE} -I ${JVMTI_INCLUDE}/linux -o ${PERF_JVMTI} ${sources}
  DEPENDS ${LINUX_SOURCE}
  WORKING_DIRECTORY ${directory}
  COMMENT "Building perf's JVM agent"
  VERBATIM)
add_custom_target(perf_jvmti ALL DEPENDS ${PERF_JVMTI})
