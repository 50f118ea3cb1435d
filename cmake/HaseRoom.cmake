# hase_room(NAME SOURCES … [TESTS …] [DEPS …] [PRIVATE_DEPS …] [TEST_DEPS …])
#
# One static library hase_NAME per room and one GoogleTest binary NAME_test holding its *_test.cc.
# Rooms list their files by hand: a file that is not listed is not built.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(hase_warnings INTERFACE)
target_compile_options(hase_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  # g++ 12 sees overlaps that are not there in "text" + std::string (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # clang 19 sees libstdc++ 12's own use of get_temporary_buffer behind std::stable_sort.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<BOOL:${HASE_WERROR}>:-Werror>)
if(HASE_SANITIZE)
  add_compile_definitions(HASE_SANITIZED)
  add_compile_options(-fsanitize=${HASE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${HASE_SANITIZE})
endif()
if(HASE_FUZZ)  # a fuzzer finds its way by the branches that the rooms' code takes
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

function(hase_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS;DEPS;PRIVATE_DEPS;TEST_DEPS" ${ARGN})
  add_library(hase_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(hase_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(hase_${name} PUBLIC ${ROOM_DEPS}
                        PRIVATE ${ROOM_PRIVATE_DEPS} hase_warnings)
  if(ROOM_TESTS)
    hase_test(${name}_test SOURCES ${ROOM_TESTS} DEPS hase_${name} ${ROOM_TEST_DEPS})
  endif()
endfunction()

# hase_test(NAME SOURCES … DEPS …): a GoogleTest binary run by ctest from the repository root.
function(hase_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_DEPS} GTest::gtest GTest::gmock GTest::gtest_main
                        hase_warnings)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# hase_fuzz(NAME SOURCES … DEPS …): a libFuzzer target, built where HASE_FUZZ is on (clang only).
function(hase_fuzz name)
  if(NOT HASE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(F "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${F_SOURCES})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${F_DEPS} hase_warnings)
endfunction()
