# llama.cpp (which holds ggml) as a subproject: targets ggml, llama, llama-common.
# `tools/setup.sh` unpacks the pinned sources; a packager can point STEMMA_LLAMA_CPP_DIR at a tree of their own.
set(STEMMA_LLAMA_CPP_DIR "${CMAKE_SOURCE_DIR}/build/deps/llama.cpp" CACHE PATH
    "Root of a llama.cpp source tree")
if(NOT EXISTS "${STEMMA_LLAMA_CPP_DIR}/CMakeLists.txt")
  message(FATAL_ERROR "No llama.cpp sources at ${STEMMA_LLAMA_CPP_DIR}. "
                      "Run tools/setup.sh, or pass -DSTEMMA_LLAMA_CPP_DIR=<a llama.cpp source tree>.")
endif()

set(STEMMA_LLAMA_CPP_BUILD "" CACHE PATH
    "llama.cpp in another build folder of this project, to link instead of building it again; the targets then exist, and no more")
if(STEMMA_LLAMA_CPP_BUILD)
  file(GLOB_RECURSE archives ${STEMMA_LLAMA_CPP_BUILD}/*.a)
  if(NOT archives MATCHES "llama-common\\.a")
    message(FATAL_ERROR "No llama.cpp in ${STEMMA_LLAMA_CPP_BUILD}. Build it there: tools/build.sh release llama-common")
  endif()
  foreach(target ggml llama llama-common)
    add_library(${target} INTERFACE IMPORTED)
    target_link_libraries(${target} INTERFACE -Wl,--start-group ${archives} -Wl,--end-group ${CMAKE_DL_LIBS})
    target_include_directories(${target} SYSTEM INTERFACE ${STEMMA_LLAMA_CPP_DIR}/include ${STEMMA_LLAMA_CPP_DIR}/ggml/include)
  endforeach()
  return()
endif()

set(BUILD_SHARED_LIBS OFF CACHE BOOL "" FORCE)
foreach(part TOOLS SERVER TESTS EXAMPLES APP HTML)
  set(LLAMA_BUILD_${part} OFF CACHE BOOL "" FORCE)
endforeach()
set(LLAMA_BUILD_COMMON ON CACHE BOOL "" FORCE)
set(LLAMA_OPENSSL OFF CACHE BOOL "" FORCE)
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)
# Stemma multiplies with ggml's products of vectors alone, and libllama is what tests compare it with: without these
# kernels libllama, too, computes a row's products in one order, whatever the number of rows beside it.
set(GGML_LLAMAFILE OFF CACHE BOOL "" FORCE)
set(GGML_CCACHE OFF CACHE BOOL "" FORCE)

# The dependency is always optimised and never instrumented: the sanitizer presets watch our own code, and
# every preset shares the same cached objects.
block()
  set(CMAKE_BUILD_TYPE Release)
  set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)
  # Its objects must not depend on the commit of the repository around it.
  set(GIT_EXECUTABLE "")
  set(GIT_EXE "")
  add_subdirectory(${STEMMA_LLAMA_CPP_DIR} ${CMAKE_BINARY_DIR}/llama.cpp EXCLUDE_FROM_ALL SYSTEM)
  # Templates and the tests' oracle take their time elsewhere (in ggml, which stays as it is); compiling these takes nearly half of
  # the time of a first build.
  foreach(target llama llama-common cpp-httplib)
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE -O1)
    endif()
  endforeach()
endblock()

file(STRINGS ${STEMMA_LLAMA_CPP_DIR}/ggml/CMakeLists.txt ggml_version_lines REGEX "set\\(GGML_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" STEMMA_GGML_VERSION "${ggml_version_lines}")
string(REPLACE ";" "." STEMMA_GGML_VERSION "${STEMMA_GGML_VERSION}")
if(NOT STEMMA_GGML_VERSION STREQUAL "0.25.3")
  message(WARNING "Stemma is tested with ggml 0.25.3; ${STEMMA_LLAMA_CPP_DIR} has ${STEMMA_GGML_VERSION}.")
endif()
