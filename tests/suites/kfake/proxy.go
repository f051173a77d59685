package kfake

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type controlFunc func(kmsg.Request) (kmsg.Response, error, bool)

// proxy passes frames on, in both directions, and shows requests to the controls.
type proxy struct {
	listener net.Listener
	broker   string

	mu       sync.Mutex
	controls map[int16][]controlFunc
	open     map[net.Conn]struct{}
}

func newProxy(listener net.Listener, broker string) *proxy {
	p := &proxy{
		listener: listener,
		broker:   broker,
		controls: map[int16][]controlFunc{},
		open:     map[net.Conn]struct{}{},
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		conn.Close()
	}
}

func (p *proxy) control(key int16, fn controlFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.controls[key] = append(p.controls[key], fn)
}

// serve keeps the order of the answers: each request leaves a note, which is either an answer that is
// there already or nil for the broker's next one.
func (p *proxy) serve(client net.Conn) {
	broker, err := net.Dial("tcp", p.broker)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.open[client], p.open[broker] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		client.Close()
		broker.Close()
		p.mu.Lock()
		delete(p.open, client)
		delete(p.open, broker)
		p.mu.Unlock()
	}()

	notes := make(chan []byte, 1024)
	go func() {
		defer client.Close()
		defer broker.Close()
		for frame := range notes {
			if frame == nil {
				var err error
				if frame, err = readFrame(broker); err != nil {
					break
				}
			}
			if _, err := client.Write(frame); err != nil {
				break
			}
		}
		for range notes {
		}
	}()
	defer close(notes)
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		answer, close := p.ask(frame)
		if close {
			return
		}
		if answer == nil {
			if _, err := broker.Write(frame); err != nil {
				return
			}
			if expectsNothing(frame) {
				continue
			}
		}
		notes <- answer
	}
}

// readFrame reads a frame with its length.
func readFrame(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(frame, length[:])
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

// ask shows a request to the controls of its key. The answer is nil if none of them gave one.
func (p *proxy) ask(frame []byte) (answer []byte, close bool) {
	key := int16(binary.BigEndian.Uint16(frame[4:]))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.controls[key]) == 0 {
		return nil, false
	}
	request := decode(frame)
	for i, fn := range p.controls[key] {
		response, err, handled := fn(request)
		if !handled {
			continue
		}
		p.controls[key] = append(p.controls[key][:i:i], p.controls[key][i+1:]...)
		if err != nil || response == nil {
			return nil, true
		}
		return encode(frame, request, response), false
	}
	return nil, false
}

// decode reads a request that kgo has written: its header never has tagged fields.
func decode(frame []byte) kmsg.Request {
	request := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame[4:])))
	request.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	body := frame[14:]
	if length := int16(binary.BigEndian.Uint16(frame[12:])); length > 0 {
		body = body[length:]
	}
	if request.IsFlexible() {
		body = body[1:]
	}
	if err := request.ReadFrom(body); err != nil {
		panic(err)
	}
	return request
}

func encode(frame []byte, request kmsg.Request, response kmsg.Response) []byte {
	response.SetVersion(request.GetVersion())
	answer := append(make([]byte, 4), frame[8:12]...)
	if response.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		answer = append(answer, 0)
	}
	answer = response.AppendTo(answer)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	return answer
}

// expectsNothing tells a Produce request with acks=0, the only one without a response.
func expectsNothing(frame []byte) bool {
	if int16(binary.BigEndian.Uint16(frame[4:])) != int16(kmsg.Produce) {
		return false
	}
	return decode(frame).(*kmsg.ProduceRequest).Acks == 0
}
