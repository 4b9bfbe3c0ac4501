// An expander server for tests: it tells what it was asked, and answers what it was told to.
//
//	server PROTO [CERT KEY]
//
// It prints its port, then one JSON line for each call. Lines on standard input say what to answer from then on:
//
//	answer GROUP ...   these options, with whatever else was sent of them
//	raw HEX            these bytes
//	fail TEXT          an error
//	hang               nothing, until the caller gives up
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	corev1 "k8s.io/api/core/v1"
)

type told struct {
	sync.Mutex
	verb string
	rest []string
}

func (t *told) listen() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		t.Lock()
		t.verb, t.rest = words[0], words[1:]
		t.Unlock()
		say(map[string]any{"told": words[0]})
	}
	os.Exit(0)
}

// plain hands bytes through: what is asked and answered need not be protobuf.
type plain struct{}

func (plain) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (plain) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (plain) Name() string { return "proto" }

type expander struct {
	service protoreflect.ServiceDescriptor
	told    *told
}

func (e *expander) bestOptions(ctx context.Context, content []byte) ([]byte, error) {
	method := e.service.Methods().ByName("BestOptions")
	request := dynamicpb.NewMessage(method.Input())
	if err := proto.Unmarshal(content, request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	deadline, _ := ctx.Deadline()
	say(tell(request, !deadline.IsZero()))
	e.told.Lock()
	verb, rest := e.told.verb, e.told.rest
	e.told.Unlock()
	switch verb {
	case "answer":
		return answer(method.Output(), request, rest)
	case "raw":
		return hex.DecodeString(strings.Join(rest, ""))
	case "fail":
		return nil, status.Error(codes.Internal, strings.Join(rest, " "))
	default:
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

func answer(kind protoreflect.MessageDescriptor, request protoreflect.Message, groups []string) ([]byte, error) {
	asked := request.Descriptor().Fields().ByName("options")
	id := asked.Message().Fields().ByName("nodeGroupId")
	byGroup := map[string]protoreflect.Message{}
	options := request.Get(asked).List()
	for i := range options.Len() {
		option := options.Get(i).Message()
		byGroup[option.Get(id).String()] = option
	}
	response := dynamicpb.NewMessage(kind)
	chosen := response.Mutable(kind.Fields().ByName("options")).List()
	for _, group := range groups {
		option, known := byGroup[group]
		if !known {
			option = dynamicpb.NewMessage(asked.Message())
			option.Set(id, protoreflect.ValueOfString(group))
		}
		chosen.Append(protoreflect.ValueOfMessage(option))
	}
	return proto.Marshal(response)
}

func tell(request protoreflect.Message, limited bool) map[string]any {
	fields := request.Descriptor().Fields()
	options, nodes := []any{}, map[string]any{}
	asked := request.Get(fields.ByName("options")).List()
	for i := range asked.Len() {
		option := asked.Get(i).Message()
		names := option.Descriptor().Fields()
		pods := []any{}
		serialized := option.Get(names.ByName("podBytes")).List()
		for j := range serialized.Len() {
			pod := corev1.Pod{}
			if err := pod.Unmarshal(serialized.Get(j).Bytes()); err != nil {
				log.Fatalf("pod %d: %v", j, err)
			}
			pods = append(pods, pod)
		}
		options = append(options, map[string]any{
			"group": option.Get(names.ByName("nodeGroupId")).String(),
			"nodes": option.Get(names.ByName("nodeCount")).Int(),
			"debug": option.Get(names.ByName("debug")).String(),
			"pods":  pods,
		})
	}
	request.Get(fields.ByName("nodeBytesMap")).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		node := corev1.Node{}
		if err := node.Unmarshal(value.Bytes()); err != nil {
			log.Fatalf("node %v: %v", key, err)
		}
		nodes[key.String()] = node
		return true
	})
	unknown := len(request.GetUnknown())
	return map[string]any{"options": options, "nodes": nodes, "unknown": unknown, "has_deadline": limited}
}

var saying sync.Mutex

func say(line any) {
	saying.Lock()
	defer saying.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func main() {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	served := &expander{files[0].Services().ByName("Expander"), &told{verb: "answer"}}
	handle := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var content []byte
		if err := decode(&content); err != nil {
			return nil, err
		}
		answered, err := served.bestOptions(ctx, content)
		return &answered, err
	}
	options := []grpc.ServerOption{grpc.ForceServerCodec(plain{}), grpc.MaxRecvMsgSize(1 << 28)}
	if len(os.Args) > 2 {
		proof, err := credentials.NewServerTLSFromFile(os.Args[2], os.Args[3])
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(proof))
	}
	port := os.Getenv("PORT")
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: string(served.service.FullName()),
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "BestOptions", Handler: handle}},
	}, served)
	say(map[string]any{"port": listener.Addr().(*net.TCPAddr).Port})
	go served.told.listen()
	log.Fatal(server.Serve(listener))
}
