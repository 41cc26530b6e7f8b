// Package lines is how a consumer is told what to do, and tells what happened: a line each, words apart by tabs.
package lines

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

var mutex sync.Mutex

// Say one thing that happened.
func Say(parts ...any) {
	words := make([]string, len(parts))
	for index, part := range parts {
		words[index] = strings.ReplaceAll(fmt.Sprint(part), "\n", " ")
	}
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Println(strings.Join(words, "\t"))
}

// Names of partitions, as the others write them.
func Names(partitions map[string][]int32) string {
	var names []string
	for topic, numbers := range partitions {
		for _, number := range numbers {
			names = append(names, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

// Settings are those of the arguments, name=value.
type Settings map[string]string

// Arguments are the topic and the settings.
func Arguments() (string, Settings) {
	settings := Settings{}
	for _, argument := range os.Args[2:] {
		name, value, _ := strings.Cut(argument, "=")
		settings[name] = value
	}
	return os.Args[1], settings
}

// Ms is a setting in milliseconds, or another value where it is not given.
func (settings Settings) Ms(name string, otherwise time.Duration) time.Duration {
	number, err := strconv.Atoi(settings[name])
	if err != nil {
		return otherwise
	}
	return time.Duration(number) * time.Millisecond
}

// Commands as they come; the last is to close.
func Commands() <-chan string {
	commands := make(chan string, 100)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
		commands <- "close"
	}()
	return commands
}
