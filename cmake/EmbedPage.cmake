# Writes the files of ctl/page as a C++ source: cmake -DOUTPUT=FILE.cc -DFOLDER=ctl/page "-DNAMES=a.js b.js" -P THIS
# Together they have at most 80 KB, so that the page stays one that a person can read.

set(most_bytes 80000)
string(REPLACE " " ";" names "${NAMES}")
set(source "#include \"ctl/page/page_files.h\"\n\nnamespace profd {\nnamespace {\n\nconstexpr PageFile kFiles[] = {\n")
set(bytes 0)
foreach(name ${names})
  file(SIZE ${FOLDER}/${name} size)
  math(EXPR bytes "${bytes} + ${size}")
  file(READ ${FOLDER}/${name} text)
  string(APPEND source "    {\"${name}\", R\"page(${text})page\"},\n")
endforeach()
if(bytes GREATER most_bytes)
  message(FATAL_ERROR "ctl/page has ${bytes} bytes, more than ${most_bytes}")
endif()
string(APPEND source "};\n\n}  // namespace\n\nstd::span<const PageFile> page_files() { return kFiles; }\n\n}  // namespace profd\n")
file(WRITE ${OUTPUT} "${source}")
