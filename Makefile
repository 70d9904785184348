# colfam: `make demo` and `make test` do everything; `make` alone builds build/colfam.so.
# Everything built goes below $(BUILD); `make CC=clang BUILD=build/clang` keeps a second build beside it.

BUILD ?= build
CC ?= cc
CFLAGS ?= -O2 -g
WARNINGS = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wcast-qual -Wwrite-strings -Wundef -Wvla
SOURCE_FLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -I. -Iengine -Iext
BASE_FLAGS = $(SOURCE_FLAGS) -fPIC -fvisibility=hidden -pthread -MMD -MP
# Long SQL in arrays of texts is joined from several literals.
TEST_FLAGS = -Wno-string-concatenation
LIBS = -lzstd -lpthread -lm
CHECK_LIBS = -lcheck -lsubunit -lrt
# Counts lines and branches of both sides, not of the tests (make cov).
COVERAGE_FLAGS = $(if $(COVERAGE),--coverage -fprofile-update=prefer-atomic)
LIBS += $(if $(COVERAGE),--coverage)
comma = ,
# Prints what is made; V=1 prints the commands.
Q = $(if $(V),,@echo "  $@" && )

# SQLite loads extensions RTLD_GLOBAL and may unload them while another connection still runs their code:
# the entry points go out, and the code stays. Sanitizers leave their own symbols open until the program runs.
SO_FLAGS = -shared -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,nodelete \
           $(if $(SANITIZE),,-Wl,-z,defs)

ENGINE_SRC = $(wildcard engine/*.c)
EXT_SRC = $(wildcard ext/*.c)
ENGINE_OBJ = $(ENGINE_SRC:%.c=$(BUILD)/%.o)
EXT_OBJ = $(EXT_SRC:%.c=$(BUILD)/%.o)
# For programs that link it statically beside SQLite (core_*, embed_static).
CORE_OBJ = $(EXT_SRC:%.c=$(BUILD)/core/%.o)
# For crash tests: both sides with named kill points.
KILL_OBJ = $(ENGINE_SRC:%.c=$(BUILD)/test/%.o) $(EXT_SRC:%.c=$(BUILD)/test/%.o)

# Which programs there are is told by file names alone (tests/README.md).
program = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard $(1:%=tests/%_*.c))))
HARNESS_SRC = $(wildcard tests/harness*.c tests/catalog*.c)
HARNESS_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/harness_fuzz%,$(HARNESS_SRC)))
CORE_HARNESS_OBJ = $(filter-out %/catalog.o,$(HARNESS_SRC:%.c=$(BUILD)/core/%.o))
UNIT_BIN = $(call program,test)
FUZZ_BIN = $(call program,fuzz)
CORE_BIN = $(call program,core) $(filter %/embed_static,$(call program,embed)) $(FUZZ_BIN)
# The same with the door for a disk in memory that the test build has.
FAULT_BIN = $(call program,fault)
FAULT_OBJ = $(EXT_SRC:%.c=$(BUILD)/fault/%.o)
LOADED_BIN = $(filter-out $(CORE_BIN),$(call program,model crash sql embed))
PROGRAMS = $(LOADED_BIN) $(CORE_BIN) $(FAULT_BIN) $(UNIT_BIN)
SOAK_BIN = $(BUILD)/tests/soak
# Loaded into other programs by scripts.
PRELOADS = $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/preload_*.c))
# What benches share, the peers among it: bench.c is one of these by its name.
BENCH_SRC = $(wildcard tests/bench.c tests/bench_case.c tests/bench_floor.c tests/bench_peer*.c)
BENCH_OBJ = $(BENCH_SRC:%.c=$(BUILD)/%.o)
BENCH_BIN = $(filter-out $(BENCH_OBJ:.o=),$(call program,bench))
BENCH_LIBS = -lrocksdb -lleveldb -llmdb
SCRIPTS = $(wildcard tests/*_check.sh tests/*_check.py tests/embed_*.py)
PROGRAM_OBJ = $(UNIT_BIN:=.o) $(LOADED_BIN:=.o) $(SOAK_BIN:=.o) $(CORE_BIN:$(BUILD)/%=$(BUILD)/core/%.o) \
  $(FAULT_BIN:$(BUILD)/%=$(BUILD)/fault/%.o)
C_FILES = $(wildcard engine/*.[ch] ext/*.[ch] tests/*.[ch])

COLFAM_SO = $(abspath $(BUILD))/colfam.so
COLFAM_TEST_SO = $(abspath $(BUILD))/test/colfam.so
export COLFAM_SO COLFAM_TEST_SO CC BUILD SOURCE_FLAGS

.PHONY: all demo demo-run test test-run programs programs-run unit lint format format-check clean \
        check-asan check-tsan check-valgrind fuzz fuzz-run check-fuzz fuzz-corpus fuzz-programs \
        check-differential check-power check-damage check-mutants check-long check-long-report cov soak bench test-newest test-node
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/colfam.so

$(BUILD)/colfam.so: $(EXT_OBJ) $(ENGINE_OBJ)
$(BUILD)/test/colfam.so: $(KILL_OBJ)
$(BUILD)/colfam.so $(BUILD)/test/colfam.so: $(BUILD)/exports.map
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $(SO_FLAGS) -o $@ $(filter %.o,$^) $(LIBS)

$(PRELOADS:.so=.o): BASE_FLAGS += -fvisibility=default
$(PRELOADS): %.so: %.o
	$(Q)$(CC) -shared -o $@ $<

$(BUILD)/exports.map: Makefile
	@mkdir -p $(@D)
	@echo '{ global: sqlite3_colfam_init; sqlite3_colfam_readonly_init; local: *; };' > $@

# libkv.a: the engine alone. libcolfam.a: all of it, to link beside SQLite.
$(BUILD)/libkv.a: $(ENGINE_OBJ)
$(BUILD)/libcolfam.a: $(CORE_OBJ) $(ENGINE_OBJ)
$(BUILD)/libharness.a: $(HARNESS_OBJ)
$(BUILD)/core/libharness.a: $(CORE_HARNESS_OBJ)
$(BUILD)/fault/libcolfam.a: $(FAULT_OBJ) $(ENGINE_OBJ)
$(BUILD)/libkv.a $(BUILD)/libcolfam.a $(BUILD)/fault/libcolfam.a $(BUILD)/libharness.a $(BUILD)/core/libharness.a: Makefile
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_FLAGS) $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(BUILD)/core/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_FLAGS) -DSQLITE_CORE $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(BUILD)/fault/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_FLAGS) -DSQLITE_CORE -DCOLFAM_TEST $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(BUILD)/test/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_FLAGS) -DCOLFAM_TEST $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(ENGINE_OBJ) $(EXT_OBJ) $(CORE_OBJ) $(KILL_OBJ) $(FAULT_OBJ): BASE_FLAGS += $(COVERAGE_FLAGS)
$(PROGRAM_OBJ) $(HARNESS_OBJ) $(CORE_HARNESS_OBJ) $(BENCH_OBJ) $(BENCH_BIN:=.o): \
  BASE_FLAGS += $(TEST_FLAGS) -DCOLFAM_SO='"$(COLFAM_SO)"' -DCOLFAM_TEST_SO='"$(COLFAM_TEST_SO)"'

# Names what is missing before the compiler does; asks no network.
$(ENGINE_OBJ) $(EXT_OBJ) $(CORE_OBJ) $(KILL_OBJ) $(FAULT_OBJ): | $(BUILD)/deps-build
$(PROGRAM_OBJ) $(HARNESS_OBJ) $(CORE_HARNESS_OBJ): | $(BUILD)/deps-test
$(BENCH_OBJ) $(BENCH_BIN:=.o): | $(BUILD)/deps-bench
$(BUILD)/deps-%:
	@mkdir -p $(@D)
	@bash tests/deps.sh --check $*
	@touch $@

# Its faulty iterators stand between a job and its sources.
$(BUILD)/tests/test_compact_account: PROGRAM_FLAGS = $(patsubst %,-Wl$(comma)--wrap=%,kv_run_iter \
  kv_memtable_iter_counted kv_batch_iter_counted kv_merge_counted kv_account_drop)
$(UNIT_BIN): %: %.o $(BUILD)/libharness.a $(BUILD)/libkv.a
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $(PROGRAM_FLAGS) -o $@ $^ $(CHECK_LIBS) $(LIBS)

# With FUZZER=-fsanitize=fuzzer a target gets libFuzzer's main, else its corpus is replayed.
$(FUZZ_BIN): PROGRAM_FLAGS = -Wl,--wrap=_mark_point,--wrap=_ck_assert_failed $(FUZZER)
$(CORE_BIN): $(BUILD)/%: $(BUILD)/core/%.o $(BUILD)/core/libharness.a $(BUILD)/libcolfam.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $(PROGRAM_FLAGS) -o $@ $^ $(CHECK_LIBS) -lsqlite3 $(LIBS)

$(FAULT_BIN): $(BUILD)/%: $(BUILD)/fault/%.o $(BUILD)/core/libharness.a $(BUILD)/fault/libcolfam.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(CHECK_LIBS) -lsqlite3 $(LIBS)

$(LOADED_BIN) $(SOAK_BIN): %: %.o $(BUILD)/libharness.a | $(BUILD)/colfam.so $(BUILD)/test/colfam.so
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(CHECK_LIBS) -lsqlite3 -ldl -lpthread -lm

# Beside the extension, which they load, they have the engine for themselves.
$(BENCH_BIN): %: %.o $(BENCH_OBJ) $(BUILD)/libharness.a $(BUILD)/libkv.a | $(BUILD)/colfam.so
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ $(BENCH_LIBS) $(CHECK_LIBS) -lsqlite3 -ldl $(LIBS)

# ---- For people

demo:
	@bash tests/deps.sh build demo
	@$(MAKE) --no-print-directory demo-run

demo-run: $(BUILD)/colfam.so
	@sed 's|\./build/|$(abspath $(BUILD))/|' sql/demo.sql | sqlite3 -batch

test:
	@bash tests/deps.sh build demo test
	@$(MAKE) --no-print-directory test-run

test-run: programs $(PRELOADS)
	@bash tests/run.sh $(PROGRAMS) $(SCRIPTS)

programs: $(BUILD)/colfam.so $(BUILD)/test/colfam.so $(PROGRAMS)

# With ONLY="test_block sql_ddl" these alone.
CHOSEN = $(or $(ONLY:%=$(BUILD)/tests/%),$(PROGRAMS))

programs-run: $(CHOSEN)
	@bash tests/run.sh $(CHOSEN)

unit: $(UNIT_BIN)
	@bash tests/run.sh $(UNIT_BIN)

lint: $(BUILD)/colfam.so
	@bash tests/lint.sh

format:
	clang-format -i $(C_FILES)

format-check:
	clang-format --dry-run --Werror $(C_FILES)

clean:
	rm -rf $(BUILD)

# ---- Deeper: the compiled programs again, watched

# With QUICK=1 a part of each that shows every module in a few minutes.
FEW = $(if $(QUICK),COLFAM_STEPS=5000 COLFAM_SCHEDULES=40 COLFAM_SCENARIOS=1)
# Slow when watched, and nothing there that others have not.
SLOW = crash_% model_% core_costs core_row sql_authorizer sql_collations sql_inlists sql_numerals sql_patterns \
  sql_predicates sql_short_writers sql_values test_engine

ASAN_BIN = $(filter-out $(if $(QUICK),$(SLOW)),$(notdir $(PROGRAMS)))
check-asan:
	$(FEW) LIMIT=3000 $(MAKE) BUILD=$(BUILD)/asan CFLAGS="-O1 -g -fno-omit-frame-pointer" programs-run \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined" ONLY="$(or $(ONLY),$(ASAN_BIN))"

# The programs that start threads; SQLite itself is not watched, its locks are.
THREADED = $(filter $(notdir $(PROGRAMS)),$(patsubst tests/%.c,%,$(shell \
  grep -lE "pthread_create|sql_use_threads|steps_run" tests/*_*.c)))
TSAN_BIN = $(filter-out $(if $(QUICK),crash_% model_busy sql_disk_full sql_interrupt sql_levels sql_permissions \
  sql_short_writers),$(THREADED))
check-tsan:
	$(FEW) LIMIT=3000 $(MAKE) BUILD=$(BUILD)/tsan CFLAGS="-O1 -g" SANITIZE="-fsanitize=thread" programs-run \
	  ONLY="$(or $(ONLY),$(TSAN_BIN))"

VALGRIND_BIN = $(filter $(if $(QUICK),core_api core_error core_host embed_static fuzz_% test_buf test_key test_log \
  test_merge test_order test_places test_stream test_table_format test_uncounted,%),$(notdir $(UNIT_BIN) $(CORE_BIN)))
check-valgrind:
	@bash tests/deps.sh valgrind
	@LIMIT=3000 CK_TIMEOUT_MULTIPLIER=100 COLFAM_WRAP="valgrind -q --error-exitcode=9 --leak-check=full \
	  --show-leak-kinds=definite --errors-for-leak-kinds=definite" \
	  $(MAKE) programs-run ONLY="$(or $(ONLY),$(VALGRIND_BIN))"

# Lines and branches of both sides that no program has run. QUICK=1: without models, crashes and faults.
COV_BIN = $(filter-out $(if $(QUICK),$(SLOW) fault_%),$(notdir $(PROGRAMS)))
cov:
	@bash tests/deps.sh build demo test cov
	@find $(BUILD)/cov -name '*.gcda' -delete 2>/dev/null || true
	$(FEW) LIMIT=3000 $(MAKE) BUILD=$(BUILD)/cov COVERAGE=1 CFLAGS="-O0 -g" programs-run ONLY="$(COV_BIN)"
	@/usr/bin/python3 tests/cov.py $(BUILD)/cov

# Fuzz targets under libFuzzer and sanitizers, FUZZ_SECONDS each; go on from what was found before.
FUZZ_MAKE = $(MAKE) --no-print-directory CC=clang BUILD=$(BUILD)/fuzz CFLAGS="-O1 -g -fno-omit-frame-pointer" \
  SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" FUZZER=-fsanitize=fuzzer

fuzz:
	@bash tests/deps.sh fuzz
	@$(FUZZ_MAKE) fuzz-run

# 30 minutes each, in slices.
check-fuzz:
	@bash tests/slices.sh fuzz

fuzz-run: $(FUZZ_BIN)
	@bash tests/fuzz.sh $^

# tests/corpus anew: the seeds of this very code, and the smallest inputs that reach all that is known.
fuzz-corpus: $(FUZZ_BIN)
	@$(FUZZ_MAKE) fuzz-programs
	@bash tests/fuzz_corpus.sh $^

fuzz-programs: $(FUZZ_BIN)

# Statements against ordinary tables, STEPS more of them; goes on where it was stopped.
check-differential: $(BUILD)/tests/sql_differential
	@bash tests/slices.sh differential $(STEPS)

# The long forms of all suites (the list is in tests/slices.sh) up to their figures, or for LONG_SECONDS; can
# be stopped at any time and goes on.
check-long: programs $(PRELOADS) $(SOAK_BIN)
	@bash tests/slices.sh all $(LONG_SECONDS)

check-long-report:
	@bash tests/slices.sh report

# Processes that are killed at random, for SOAK_SECONDS.
soak: $(SOAK_BIN)
	@$<

# Figures for people, beside other stores; a busy machine spoils them. QUICK=1: under five minutes. SCALE=n: the
# growth part goes on to n million rows. One alone: make bench ONLY=multiget.
BENCH_ENV = COLFAM_BENCH=$(if $(QUICK),quick,full) COLFAM_BENCH_SCALE=$(SCALE) COLFAM_BENCH_OUT=$(BUILD)/bench.tsv
.PHONY: bench-run bench-check bench-readme
bench:
	@bash tests/deps.sh build test bench
	@$(MAKE) --no-print-directory bench-run

bench-run: $(if $(ONLY),$(BUILD)/tests/bench_$(ONLY),$(BENCH_BIN))
	@printf 'run\t%s\t%s\n' $(if $(QUICK),quick,full) $$(nproc) >$(BUILD)/bench.tsv
	@set -e; begun=$$(date +%s); for program in $^; do $(BENCH_ENV) $$program; done; took=$$(($$(date +%s) - begun)); \
	  printf 'took\t%s\n' $$took >>$(BUILD)/bench.tsv; \
	  echo "make bench: $$took seconds in all$(if $(QUICK),, at full scale), on $$(nproc) processors"

# README's "How it compares" from what the last `make bench` has measured.
bench-readme:
	@/usr/bin/python3 tests/bench_readme.py $(BUILD)/bench.tsv

# On little data: that benches run and that everybody's answers are right. The figures mean nothing.
bench-check: $(BENCH_BIN)
	@COLFAM_BENCH=check CK_TIMEOUT_MULTIPLIER=20 bash tests/run.sh $^

# All programs under each order of keys that is not the columns' own: reverse, by sort keys, by a comparator
# (tests/orders.sh). QUICK=1: most of them, each under one, in turn. What is linked beside SQLite is so once more, with
# what makes the tables.
ORDERED_CORE = $(patsubst $(BUILD)/tests/%,$(BUILD)/orders/%,$(CORE_BIN))
ORDERED = $(LOADED_BIN) $(ORDERED_CORE) $(FAULT_BIN) $(UNIT_BIN)
.PHONY: check-orders
check-orders: $(BUILD)/test/colfam.so $(ORDERED)
	@$(if $(QUICK),COLFAM_STEPS=6000) COLFAM_SO=$(COLFAM_TEST_SO) QUICK=$(QUICK) bash tests/orders.sh $(ORDERED)

$(filter $(BUILD)/orders/fuzz_%,$(ORDERED_CORE)): PROGRAM_FLAGS = -Wl,--wrap=_mark_point,--wrap=_ck_assert_failed
$(ORDERED_CORE): $(BUILD)/orders/%: $(BUILD)/core/tests/%.o $(BUILD)/core/libharness.a $(BUILD)/fault/libcolfam.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $(PROGRAM_FLAGS) -o $@ $^ $(CHECK_LIBS) -lsqlite3 $(LIBS)

# Power loss, STATES of it more, over all journal modes and synchronous settings; goes on where it was stopped.
check-power: $(BUILD)/tests/crash_power
	@bash tests/slices.sh power $(STATES)

# What each change gets, in two processes.
.PHONY: check-power-slice
check-power-slice: $(BUILD)/tests/crash_power
	@printf '%s\n' 0/2 1/2 | COLFAM_STEPS=$(or $(STATES),50000) xargs -P 2 -I{} env COLFAM_PART={} $<

# Damage, MUTATIONS of it: 19 of 20 straight to the engine, one through SQL.
MUTATIONS ?= 5000000
check-damage: $(BUILD)/tests/test_damage $(BUILD)/tests/sql_damage
	@bash tests/slices.sh damage $$(($(MUTATIONS) / 20 * 19))
	@bash tests/slices.sh damage-sql $$(($(MUTATIONS) / 20))

# Every operation and allocation fails, with other journals, keys, pages and options than in `make test`.
.PHONY: check-faults
check-faults: $(BUILD)/tests/fault_sql
	@bash tests/slices.sh faults $(SCENARIOS)

# The rules that keep what is committed, one at a time switched off: each must be found missing.
check-mutants: $(patsubst %,$(BUILD)/tests/%,crash_power sql_orphans test_compact_account)
	@bash tests/mutants.sh $<

# The sqlite3 shell killed, KILLS times more.
.PHONY: check-shell
check-shell: $(BUILD)/colfam.so $(PRELOADS)
	@bash tests/slices.sh shell $(KILLS)

# ---- Other hosts; both fetch what they need through npm, and say so when they cannot

test-newest: programs $(PRELOADS)
	@bash tests/newest.sh $(filter-out %/fuzz_row %/model_schedules,$(LOADED_BIN) $(CORE_BIN)) $(SCRIPTS)

test-node: $(BUILD)/colfam.so
	@bash tests/node.sh

-include $(patsubst %.o,%.d,$(ENGINE_OBJ) $(EXT_OBJ) $(CORE_OBJ) $(KILL_OBJ) $(FAULT_OBJ) $(HARNESS_OBJ) \
  $(CORE_HARNESS_OBJ) $(PROGRAM_OBJ) $(BENCH_OBJ) $(BENCH_BIN:=.o))
