# How Stemma's own targets are compiled, in one place.
add_library(stemma_flags INTERFACE)
# No value may depend on which instance of a kernel computed it: products and sums are fused only where the
# code says so (docs/architecture.md, "Exact").
target_compile_options(stemma_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Warns about any "literal" + std::string (GCC bug 105651).
  target_compile_options(stemma_flags INTERFACE -Wno-restrict)
endif()
target_include_directories(stemma_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(STEMMA_SANITIZE)
  target_compile_options(stemma_flags INTERFACE -fsanitize=${STEMMA_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(stemma_flags INTERFACE -fsanitize=${STEMMA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Clang 14 cannot instrument calls of coroutines so.
    target_compile_options(stemma_flags INTERFACE -fno-sanitize=function)
  endif()
  # Most of a sanitizer build's time goes into optimising test programs, which gain nothing from it.
  target_compile_options(stemma_flags INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:STEMMA_IS_TEST>>,-O0,-O1> -g1)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR STEMMA_SANITIZE)
  target_compile_definitions(stemma_flags INTERFACE STEMMA_CHECKED=1)
endif()

# stemma_library(core SOURCES a.cpp b.cpp DEPENDS x PRIVATE_DEPENDS y): one library a folder of src/.
# DEPENDS is what the folder's headers may include; that is how the layering is enforced.
function(stemma_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(stemma_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(stemma_${name} PUBLIC stemma_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
endfunction()

# stemma_test(cache_tree SOURCES tree_test.cpp DEPENDS stemma_cache LABELS unit): one test program.
# LABELS: `unit` runs in every preset, `engine` and `server` also under ThreadSanitizer. The target tests_LABEL builds
# all test programs of a label. ALONE: it is about time, or waits for threads of another's, so that nothing runs beside it.
function(stemma_test name)
  cmake_parse_arguments(ARG "ALONE" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  set_target_properties(${name}_test PROPERTIES STEMMA_IS_TEST ON)
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name}_test PRIVATE STEMMA_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                  STEMMA_LLAMA_CPP_DIR="${STEMMA_LLAMA_CPP_DIR}")
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1800 RUN_SERIAL ${ARG_ALONE})
  foreach(label IN LISTS ARG_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name}_test)
  endforeach()
endfunction()
