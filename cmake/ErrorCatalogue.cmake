# Turns src/core/errors/*.json into error_codes.h (an enum, one enumerator an entry) and error_entries.inc (the table that
# core/error_catalogue.cpp includes), so that a code that the catalogue lacks does not compile.
function(stemma_generate_error_catalogue out_dir)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/core/errors/*.json)
  list(SORT files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(enumerators "")
  set(entries "")
  set(documents "")
  foreach(file IN LISTS files)
    file(READ ${file} json)
    get_filename_component(name ${file} NAME)
    string(APPEND documents "    R\"catalogue(${json})catalogue\",  // ${name}\n")
    string(JSON count LENGTH "${json}")
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON code GET "${json}" ${i} code)
      string(JSON message GET "${json}" ${i} message)
      string(JSON status GET "${json}" ${i} httpStatus)
      string(JSON type GET "${json}" ${i} httpType)
      if(code IN_LIST codes)
        message(FATAL_ERROR "${name}: the code ${code} appears twice")
      endif()
      list(APPEND codes ${code})
      string(APPEND enumerators "  ${code},\n")
      string(APPEND entries "    {\"${code}\", R\"m(${message})m\", ${status}, \"${type}\"},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${out_dir}/core/error_codes.h @ONLY CONTENT [[
#pragma once
// Generated from src/core/errors/*.json by cmake/ErrorCatalogue.cmake.
#include <cstdint>

namespace stemma {

enum class ErrorCode : std::uint16_t {
@enumerators@};

}  // namespace stemma
]])
  file(CONFIGURE OUTPUT ${out_dir}/core/error_entries.inc @ONLY CONTENT [[
// Generated from src/core/errors/*.json by cmake/ErrorCatalogue.cmake.
constexpr ErrorEntry kEntries[] = {
@entries@};

constexpr std::string_view kDocuments[] = {
@documents@};
]])
endfunction()
